"""Cases of rules: `tests/cases/rules/<CODE>.yaml`, and how one is run.

A case is `{name, base, set?, hits, severity?, at?, artifacts?}`: a shipped profile, values that read differently
(`{profile|model|hardware|engine: {dotted.route: value}}`, `__remove__` deletes a key), how often the rule hits, with which
severity, and the route of one hit. A rule of the stage `artifacts` sees the rendered bundle, or the texts that the case gives by path.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from compiler.artifact import Artifact
from compiler.diagnostics import Diagnostic
from compiler.lint.registry import rule_by_code
from compiler.lint.rule import Subject
from compiler.lint.runner import apply_ignores, findings
from compiler.load import image_files
from compiler.pipeline import compiled
from tests.support import ROOT, subject

FOLDER = ROOT / "tests" / "cases" / "rules"


def cases_of(file: Path) -> list[dict[str, Any]]:
    """The cases of one file."""
    loaded: list[dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))
    return loaded


def all_cases() -> list[tuple[str, dict[str, Any]]]:
    """Code and case, over all files."""
    return [(file.stem, case) for file in sorted(FOLDER.glob("*.yaml")) for case in cases_of(file)]


def hits(code: str, case: Mapping[str, Any]) -> list[Diagnostic]:
    """The findings of that code in this case."""
    registered = rule_by_code(code)
    assert registered is not None, f"no rule has the code {code}"
    seen = subject(case["base"], case.get("set"))
    if registered.rule.stage == "artifacts":
        seen = dataclasses.replace(seen, artifacts=_artifacts(seen, case.get("artifacts")))
        return [d for d in findings(seen, "artifacts") if d.code == code]
    found = findings(seen, "plan")
    if registered.rule.stage == "ignores":
        found = apply_ignores(found, seen.specs)
    return [d for d in found if d.code == code]


def _artifacts(seen: Subject, texts: Mapping[str, Any] | None) -> dict[str, Artifact]:
    if texts is not None:
        return {path: Artifact(path, (text if isinstance(text, str) else _filled(text["fill"])).encode()) for path, text in texts.items()}
    bundle = compiled(seen.specs, image_files(ROOT)).bundle
    assert bundle is not None, "the base of an artifacts case must compile"
    return bundle.by_path()


def _filled(size: int) -> str:
    """JSON with one text of `size` characters, so that a case about size need not hold it."""
    return json.dumps({"env": {"A": "b" * size}})
