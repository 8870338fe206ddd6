"""Answers of a real release, recorded, and a stand-in for the Python that would give them."""

from __future__ import annotations

import copy
import functools
import json
import sys
from pathlib import Path
from typing import Any

from compiler.resolve import resolve_plan
from compiler.verify.asking import Answer, answer_of
from compiler.verify.question import Subject, subjects
from tests.support import ROOT, Changes, specset

ANSWERS = ROOT / "tests" / "cases" / "verify"


@functools.cache
def _row(profile: str) -> str:
    return (ANSWERS / f"{profile}.json").read_text("utf-8")


def recorded_row(profile: str) -> dict[str, Any]:
    """One line of the judge, as it was said about a shipped profile."""
    row: dict[str, Any] = json.loads(_row(profile))
    return row


def recorded_answer(profile: str, changed: dict[str, Any] | None = None) -> Answer:
    """The same as an answer, with values of `resolved` changed."""
    row = copy.deepcopy(recorded_row(profile))
    row["resolved"] |= changed or {}
    return answer_of(row)


def subject_of(profile: str, changes: Changes | None = None) -> Subject:
    """The engine of a shipped profile with changes."""
    specs = specset(profile, changes)
    return subjects(resolve_plan(specs), specs)[0]


def fake_python(folder: Path, rows: list[dict[str, Any]], release: str = "0.27.1") -> Path:
    """A program that answers as the Python of an environment with that release would; what it was asked lies beside it, in asked.json."""
    (folder / "no-device").mkdir(parents=True)
    (folder / "no-device" / "libcuda.so.1").touch()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    lines = "\n".join(json.dumps(row) for row in rows)
    python.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"if sys.argv[1] == '-c':\n    print({release!r}); print('/nowhere/vllm'); sys.exit()\n"
        f"open({str(folder / 'asked.json')!r}, 'w').write(sys.stdin.read())\n"
        f"open({str(folder / 'card.json')!r}, 'w').write(os.environ['PODWRIGHT_CARD'])\n"
        f"sys.stderr.write('last words\\n')\nprint({lines!r})\n"
    )
    python.chmod(0o755)
    return python
