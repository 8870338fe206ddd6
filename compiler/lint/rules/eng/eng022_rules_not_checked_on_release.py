"""Some rules were never checked against this engine release.

## What it flags
A release that is newer than the newest one in which the errors of some rules were seen. Their findings are warnings there.

## Why it hurts
A rule that stays silent on such a release proves nothing: the engine may have learned what the rule refuses, and may refuse
something new.

## Example
    engine: vllm-0.33.0

## Use instead
    engine: vllm-0.27.1      # or ask the release itself: podwright verify PROFILE

## When to ignore
Once `podwright verify` has let the release itself accept the profile.

## Source
`compiler/lint/reach.py`: for each rule the newest release whose source was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, release, sm
from compiler.lint.reach import unproved
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG022", name="rules-not-checked-on-release", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """One hit that names them all."""
    codes = unproved(release(subject), sm(subject)) if on_gpu(subject) else []
    if codes:
        what = f"{len(codes)} rules are not checked on vLLM {subject.plan.engine.release}: {', '.join(codes)}"
        yield Hit(
            subject.place("profile", "engine"), what, "their silence is no sign of health, and their errors are warnings here",
            "let the release itself answer: podwright verify",
        )  # fmt: skip
