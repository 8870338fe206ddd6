"""A value is not one of those that the option takes.

## What it flags
A setting whose option has a fixed list of choices and whose value is none of them.

## Why it hurts
The engine's parser refuses it: `invalid choice`.

## Example
    settings: {kv_cache_dtype: fp8_e4m4}

## Use instead
    settings: {kv_cache_dtype: fp8_e4m3}

## When to ignore
Never: the engine refuses.

## Source
The flag snapshot of the release.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import is_none_or, option_place

RULE = Rule(code="ENG003", name="value-not-among-choices", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each value that the parser does not list."""
    for setting in subject.plan.engine.settings:
        flag = subject.specs.flags.find(setting.name)
        if flag is None or not flag.choices:
            continue
        values = setting.value if isinstance(setting.value, tuple) else (setting.value,)
        for value in values:
            if is_none_or(value, str, int, float) and value is not None and str(value) not in flag.choices:
                near = difflib.get_close_matches(str(value), flag.choices, n=1, cutoff=0.5)
                fix = (f"did you mean `{near[0]}`? " if near else "") + f"All choices: {', '.join(flag.choices)}"
                what = f"`{setting.name}: {value}` is not a choice of vLLM {subject.specs.flags.release}"
                yield Hit(option_place(subject, setting.name), what, "the engine's parser refuses it", fix, weight(subject))
