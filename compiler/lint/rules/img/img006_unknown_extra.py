"""An extra does not exist in the engine release.

## What it flags
A name in `container.extras` that the engine spec does not define.

## Why it hurts
It would be left out silently.

## Example
    container: {extras: [fasttokens]}

## Use instead
    container: {extras: [fastokens]}

## When to ignore
Never.

## Source
The engine spec.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG006", name="unknown-extra", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unknown extra."""
    known = subject.specs.engine.extras
    for index, name in enumerate(subject.specs.profile.container.extras):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known) or 'none'}"
            yield Hit(
                subject.place("profile", "container", "extras", index),
                f"engine {subject.plan.engine.slug} has no extra `{name}`",
                "nothing would be installed for it",
                fix,
            )
    if subject.specs.profile.kv_store is not None and "lmcache" not in known:
        what = f"the KV store needs the extra `lmcache`, which engine {subject.plan.engine.slug} does not have"
        why = "the engine could not reach a store that nobody installed"
        yield Hit(subject.place("profile", "kv_store"), what, why, "add the extra to the engine spec")
