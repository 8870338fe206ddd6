"""`podwright verify`: questions out, answers in, and what they mean for the plan."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from compiler.console import print_json, table
from compiler.deploy.explainer import explained
from compiler.deploy.failures import DeployError
from compiler.deploy.hub import HubClient
from compiler.diagnostics import Diagnostic, brief, printable
from compiler.plan.core import Plan
from compiler.schema.specset import SpecSet
from compiler.verify.asking import Answer, answers
from compiler.verify.comparison import Row, compared
from compiler.verify.configs import ModelConfig, NoConfig, folder_config, hub_config, model_config
from compiler.verify.environment import Engine, cached_engine, engines_folder, given_engine, release_engine
from compiler.verify.image import ImageEngine, image_answers, image_at_hand, image_engine
from compiler.verify.question import Subject, card_facts, draft_repo, job_of, subjects

OK, FAULT, NOT_ASKED = 0, 1, 4
WIDEST = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """How to ask. `root` holds `images` and `specs`; `image` names one, or is `profile`; `draft` is a folder with a draft's config.json."""

    root: Path
    python: Path | None = None
    image: str | None = None
    config: Path | None = None
    draft: Path | None = None
    config_from: Literal["auto", "hub", "facts"] = "auto"
    build: bool = True
    may_make: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a release said about one engine, and what that means for the plan."""

    subject: Subject
    config: ModelConfig
    answer: Answer
    rows: tuple[Row, ...]
    rule: str
    fix: str

    @property
    def faults(self) -> tuple[Row, ...]:
        """Where the plan is wrong."""
        return tuple(row for row in self.rows if row.verdict == "differs")

    @property
    def ok(self) -> bool:
        """Accepted, and as planned."""
        return self.answer.accepted and not self.faults

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        answer = self.answer
        return {
            "engine": self.subject.name, "ok": self.ok, "accepted": answer.accepted, "stage": answer.stage, "error": answer.error, "rule": self.rule or None, "fix": self.fix or None,
            "config": {"source": self.config.source, "origin": self.config.origin}, "seconds": answer.seconds, "rows": [row.to_json() for row in self.rows],
            "resolved": answer.resolved, "ranks": list(answer.ranks),
        }  # fmt: skip


def run_verify(specs: SpecSet, plan: Plan, findings: Sequence[Diagnostic], orders: Orders, *, as_json: bool) -> int:
    """Ask the profile's own release about it and print what it says; the exit code: 0 as planned, 1 refused or different, 4 nobody to ask."""
    say = _quiet if as_json else _say
    refusing = sorted({d.code for d in findings if d.is_error})
    try:
        engine = found_engine(plan, specs, orders, say)
        judgements = judged(plan, specs, engine, orders, say, refusing)
    except DeployError as error:
        if as_json:
            print_json({"ok": False, "profile": plan.profile, **error.to_json()})
        else:
            print(error.formatted(), file=sys.stderr)
        return NOT_ASKED
    ok = all(j.ok for j in judgements)
    asked = all(j.answer.is_judgement for j in judgements)
    if as_json:
        where = {
            "release": plan.engine.release,
            "asked": asked_of(engine),
            "card": card_facts(plan.hardware, specs.hardware),
            "rules_that_refuse": refusing,
        }
        print_json({"ok": ok, "profile": plan.profile, **where, "engines": [j.to_json() for j in judgements]})
    else:
        print("\n\n".join(text_of(j, plan) for j in judgements))
        if refusing:
            print(f"note: podwright's own rules refuse this profile: {', '.join(refusing)} (`podwright lint {plan.profile}`)")
    return OK if ok else FAULT if asked else NOT_ASKED


def found_engine(plan: Plan, specs: SpecSet, orders: Orders, say: Callable[[str], None]) -> Engine | ImageEngine:
    """The environment or the image to ask: the one that is named, one that is there, or an environment that is made. Raises DeployError."""
    if plan.engine.distribution != "vllm":
        raise NoConfig(
            f"{plan.profile} runs on {plan.engine.distribution}, not on a card",
            "There is no card to answer for.",
            f"`podwright local {plan.profile}` starts the engine itself.",
        )
    if orders.python is not None:
        return given_engine(orders.python, plan.engine.release, orders.root, os.environ)
    if orders.image is not None:
        return image_engine(orders.image, plan, specs.engine)
    there = cached_engine(plan.engine.release, os.environ) or image_at_hand(plan, specs.engine)
    if there is not None:
        return there
    lock = orders.root / "specs" / "engines" / specs.engine.lock if specs.engine.lock else None
    return release_engine(
        plan.engine.release, lock if lock is not None and lock.is_file() else None, orders.root, os.environ, orders.may_make, say
    )


def asked_of(engine: Engine | ImageEngine) -> dict[str, str]:
    """Who answered, for programs."""
    return {"image": engine.reference, "id": engine.id} if isinstance(engine, ImageEngine) else {"python": str(engine.python)}


def judged(
    plan: Plan, specs: SpecSet, engine: Engine | ImageEngine, orders: Orders, say: Callable[[str], None], refusing: Sequence[str] = ()
) -> list[Judgement]:
    """All engines of a plan, asked of one process. `refusing` are rules that refuse the profile already. Raises DeployError."""
    client = HubClient(token=os.environ.get("HF_TOKEN"))
    card = card_facts(plan.hardware, specs.hardware)
    with tempfile.TemporaryDirectory(prefix="podwright-verify-") as name:
        folder = Path(name)
        asked: list[tuple[Subject, ModelConfig, dict[str, Any]]] = []
        for subject in subjects(plan, specs):
            config = model_config(subject.model, subject.spec, orders.config, orders.config_from, client)
            draft = _written(folder / subject.name / "draft", _draft_config(subject, orders, client))
            model = _written(folder / subject.name / "model", config)
            seen = [engine.seen(path, folder) if path is not None else None for path in (model, draft)]
            asked.append((subject, config, job_of(subject, seen[0] or folder, seen[1], orders.build)))
        who = f" of {engine.reference}" if isinstance(engine, ImageEngine) else ""
        card_text = f"{plan.hardware.count} x {plan.hardware.name}"
        say(f"asking vLLM {plan.engine.release}{who} about {plan.profile} on {card_text}, half a minute for each engine and rank")
        found = _answers(engine, plan, card, [job for _, _, job in asked], orders.root, folder)
    return [judgement(subject, config, found[subject.name], refusing) for subject, config, _ in asked]


def _answers(
    engine: Engine | ImageEngine, plan: Plan, card: dict[str, Any], jobs: Sequence[dict[str, Any]], root: Path, folder: Path
) -> dict[str, Answer]:
    if isinstance(engine, ImageEngine):
        return image_answers(engine, plan.engine.release, card, jobs, root, folder)
    return answers(engine, card, jobs, root, engines_folder(os.environ))


def judgement(subject: Subject, config: ModelConfig, answer: Answer, refusing: Sequence[str] = ()) -> Judgement:
    """An answer beside the plan, and a refusal beside the rule that knows it."""
    rows = tuple(compared(subject, answer, config.is_own)) if answer.resolved else ()
    rule, fix = ("", "") if answer.accepted or not answer.is_judgement else rule_of(answer.error or "", refusing)
    return Judgement(subject, config, answer, rows, rule, fix)


def rule_of(words: str, refusing: Sequence[str] = ()) -> tuple[str, str]:
    """The code of the rule that a refusal belongs to, and what to do, by the explainer's fingerprints; empty where none knows it.

    The engine's words often fit several rules: one that refuses the profile already is the one that is meant.
    """
    causes = [c for c in explained(words).causes if c.kind == "error"]
    for cause in causes:
        if code := next((code for code in (cause.code, *cause.see) if code in refusing), ""):
            return code, cause.fix
    return (causes[0].code, causes[0].fix) if causes else ("", "")


def text_of(judgement: Judgement, plan: Plan) -> str:
    """A judgement for a person."""
    answer, subject = judgement.answer, judgement.subject
    head = f"{subject.name}: vLLM {plan.engine.release} on {plan.hardware.count} x {plan.hardware.name} "
    verdict = (
        "accepts it" if answer.accepted else f"refuses it ({answer.stage})" if answer.is_judgement else "could not be asked to the end"
    )
    lines = [head + verdict, f"  config: {judgement.config.origin}"]
    if not answer.is_judgement:
        lines.append(f"  judge: {printable(brief(' '.join((answer.error or '').split())))}")
    elif not answer.accepted:
        lines.append(f"  engine: {printable(brief(' '.join((answer.error or '').split())))}")
        lines.append(
            f"  rule: {judgement.rule} (`podwright explain {judgement.rule}`)"
            if judgement.rule
            else "  rule: none of podwright's rules knows this refusal"
        )
        lines += [f"  fix: {judgement.fix}"] if judgement.fix else []
    if judgement.rows:
        rows = [(row.name, _short(row.planned), _short(row.engine), row.verdict) for row in judgement.rows]
        lines += [f"  {line}" for line in table(rows, ("what", "plan", "engine", "")).splitlines()]
    for row in judgement.faults:
        lines.append(f"  fault of the plan: {row.name} is {_short(row.engine)}, planned {_short(row.planned)}. {row.why}")
    if answer.accepted and not judgement.faults:
        lines.append(
            f"  as planned: {sum(row.verdict == 'same' for row in judgement.rows)} of {sum(row.verdict != 'told' for row in judgement.rows)} values"
        )
    return "\n".join(lines)


def _draft_config(subject: Subject, orders: Orders, client: HubClient) -> ModelConfig | None:
    repo = draft_repo(subject.engine.argv)
    if repo is None:
        return None
    if orders.draft is not None:
        return folder_config(orders.draft)
    try:
        return hub_config(repo, None, client)
    except DeployError as error:
        raise NoConfig(
            f"the draft {repo} has no config.json here: {error.what}",
            "The engine opens the draft's config while it decides.",
            "Give a folder with it: --draft-config FOLDER.",
        ) from error


def _written(folder: Path, config: ModelConfig | None) -> Path | None:
    if config is None:
        return None
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.content), encoding="utf-8")
    return folder


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"{value:,.0f}"
        if isinstance(value, float) and abs(value) >= 100_000
        else f"{value:,.6g}"
        if isinstance(value, float)
        else str(value)
    )
    return printable(brief(text, WIDEST))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(line: str) -> None:
    """Nothing: --json prints one document."""
