"""Ask a real release about many changed profiles at once: one process for each card, two at a time."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet
from compiler.verify.asking import answers
from compiler.verify.command import Judgement, judgement
from compiler.verify.configs import ModelConfig, NoConfig, facts_config
from compiler.verify.environment import Engine
from compiler.verify.question import Subject, card_facts, draft_repo, job_of, subjects
from tests.integration.parts import PARTS, ROOT, engine_parts
from tests.support import Changes, specset

RELEASE = "0.27.1"
AT_ONCE = 2


@dataclasses.dataclass(frozen=True)
class Question:
    """A shipped profile with changes; `id` names it in the answers."""

    id: str
    base: str
    changes: Changes = dataclasses.field(default_factory=dict)

    def specs(self) -> SpecSet:
        """Its specs."""
        return specset(self.base, self.changes)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question that can be asked: one for each engine of the profile."""

    id: str
    card: str
    subject: Subject
    config: ModelConfig
    job: dict[str, Any]


def unaskable(specs: SpecSet) -> str | None:
    """Why a profile cannot be asked about with public shapes alone; None if it can."""
    plan = resolve_plan(specs)
    if plan.engine.distribution != "vllm" or plan.engine.release != RELEASE:
        return f"SKIPPED: it runs on {plan.engine.distribution} {plan.engine.release}"
    try:
        for subject in subjects(plan, specs):
            facts_config(subject.spec)
            if draft_repo(subject.engine.argv):
                return "SKIPPED: its draft is a checkpoint whose config cannot be fetched here"
    except NoConfig as error:
        return f"SKIPPED: {error.what}"
    return None


def asked_of(question: Question, folder: Path, build: bool) -> list[Asked]:
    """The questions about each engine of a profile, with their model folders written."""
    specs = question.specs()
    plan = resolve_plan(specs)
    found = []
    for subject in subjects(plan, specs):
        config, model = facts_config(subject.spec), folder / str(len(list(folder.iterdir())))
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config.content))
        name = f"{question.id}/{subject.name}"
        found.append(
            Asked(
                name,
                json.dumps(card_facts(plan.hardware, specs.hardware)),
                subject,
                config,
                {**job_of(subject, model, None, build), "id": name},
            )
        )
    return found


def judgements(questions: Iterable[Question], build: bool = True) -> dict[str, list[Judgement]]:
    """What the release says to each question, by its id."""
    parts = engine_parts(RELEASE)
    assert parts is not None
    engine = Engine(parts.python, parts.folder / "no-device", False)
    with tempfile.TemporaryDirectory() as folder:
        by_id = {question.id: asked_of(question, Path(folder), build) for question in questions}
        cards: dict[str, list[Asked]] = {}
        for asked in (one for several in by_id.values() for one in several):
            cards.setdefault(asked.card, []).append(asked)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = {
                card: pool.submit(answers, engine, json.loads(card), [one.job for one in several], ROOT, PARTS)
                for card, several in cards.items()
            }
            found = {card: job.result() for card, job in jobs.items()}
    return {name: [judgement(one.subject, one.config, found[one.card][one.id]) for one in several] for name, several in by_id.items()}
