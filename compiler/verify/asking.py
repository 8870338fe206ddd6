"""Ask a release: the judge runs inside the release's environment, and each answer comes back as one line of JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.deploy.failures import DeployError
from compiler.verify.environment import Engine

JUDGE = Path("images/engine/judge")
# The import takes 15 s, a minute on a busy machine; each question has a limit of its own in the judge.
IMPORT_S, QUESTION_S = 300, 310
LAST_WORDS = 2000


class NoAnswer(DeployError):
    """The release's environment ended without an answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a release said about one engine. `resolved`, `ranks` as images/engine/judge/judge.py describes them; `error` in its own words."""

    id: str
    accepted: bool
    stage: str | None
    error: str | None
    resolved: dict[str, Any]
    ranks: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def is_judgement(self) -> bool:
        """False where the judge could not ask: a child that died or took too long, or a layer that cannot be built without memory."""
        return self.stage != "none"


def answer_of(row: Mapping[str, Any]) -> Answer:
    """One line of the judge."""
    return Answer(
        str(row["id"]), bool(row["accepted"]), row.get("stage"), row.get("error"), dict(row.get("resolved") or {}), tuple(row.get("ranks") or ()), float(row.get("seconds") or 0),
    )  # fmt: skip


def quiet_env(card: Mapping[str, Any], cache: Path) -> dict[str, str]:
    """The judge's own variables: the card, no Hub, no reports, no account's settings."""
    return {
        "PODWRIGHT_CARD": json.dumps(dict(card)), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CACHE_ROOT": str(cache / "judge"),
    }  # fmt: skip


def judge_env(engine: Engine, card: Mapping[str, Any], root: Path, cache: Path) -> dict[str, str]:
    """The judge's environment on this machine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG", "PODWRIGHT_TRACE") if name in os.environ}
    loader = {"LD_LIBRARY_PATH": str(engine.driver)} if engine.driver else {}
    return {**kept, **loader, **quiet_env(card, cache), "PYTHONPATH": str(root / JUDGE)}


def answers(engine: Engine, card: Mapping[str, Any], jobs: Sequence[dict[str, Any]], root: Path, cache: Path) -> dict[str, Answer]:
    """The release's answers by id, all from one process. Raises NoAnswer where one is missing."""
    try:
        done = subprocess.run(
            [str(engine.python), str(root / JUDGE / "judge.py")], input=json.dumps(list(jobs)), capture_output=True, text=True, check=False,
            env=judge_env(engine, card, root, cache), timeout=IMPORT_S + QUESTION_S * len(jobs),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswer(
            f"{engine.python} gave no answer: {error}", "Nothing is known about the plan.", "Run it again on a machine that is less busy."
        ) from error
    return answers_in(done.stdout, len(jobs), str(engine.python), done.returncode, done.stderr)


def answers_in(output: str, count: int, who: str, code: int, errors: str) -> dict[str, Answer]:
    """The answers that the judge printed, by id. Raises NoAnswer where they are not as many as the questions."""
    found = {row["id"]: answer_of(row) for row in (json.loads(line) for line in output.splitlines() if line.startswith("{"))}
    if len(found) != count:
        words = errors.strip()[-LAST_WORDS:] or "it said nothing"
        raise NoAnswer(f"{who} ended with code {code} before it answered", words, "Look whether it has the release's CUDA build whole.")
    return found
