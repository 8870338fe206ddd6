"""A JSON option has a key that the release does not know.

## What it flags
A key of `compilation_config`, `speculative_config`, `kv_transfer_config` and the like that the release's class lacks.

## Why it hurts
The engine refuses the whole object: `unexpected keyword argument`.

## Example
    engine_args: {compilation_config: {cudagraphs_mode: PIECEWISE}}

## Use instead
    engine_args: {compilation_config: {cudagraph_mode: PIECEWISE}}

## When to ignore
Never: the engine refuses.

## Source
Fields of the configuration classes in the flag snapshot.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG007", name="unknown-json-key", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unknown key."""
    for setting in subject.plan.engine.settings:
        flag = subject.specs.flags.find(setting.name)
        if flag is None or not flag.keys:
            continue
        for key in mapping(subject, setting.name):
            if key not in flag.keys:
                near = difflib.get_close_matches(key, flag.keys, n=1, cutoff=0.5)
                fix = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(flag.keys)}"
                what = f"`{setting.name}` has no key `{key}` in vLLM {subject.specs.flags.release}"
                yield Hit(option_place(subject, setting.name), what, "the engine refuses the whole object", fix, weight(subject))
