"""A value is not one of those that the option takes.

## What it flags
A setting whose option has a fixed list of choices and whose value is none of them; the same of a key of an option that takes JSON.

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
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import is_none_or, option_place

RULE = Rule(code="ENG003", name="value-not-among-choices", severity=Severity.ERROR, refusal=True)

# Enumerations of 0.26.0, 0.27.1 and 0.33.0 whose names the snapshots do not list; the engine sees no case in them.
COMPILATION = {
    "cudagraph_mode": ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"),
    "mode": ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE", "0", "1", "2", "3"),
}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each value that the parser does not list."""
    for setting in subject.plan.engine.settings:
        flag = subject.specs.flags.find(setting.name)
        if flag is None:
            continue
        values = setting.value if isinstance(setting.value, tuple) else (setting.value,)
        for value in values if flag.choices else ():
            if is_none_or(value, str, int, float) and value is not None and str(value) not in flag.choices:
                yield _hit(subject, setting.name, setting.name, str(value), flag.choices)
        given = mapping(subject, setting.name) if flag.key_choices else {}
        for key, choices in flag.key_choices.items():
            # A method of speculation that the release does not know is SPD006's.
            value, is_method = given.get(key), (setting.name, key) == ("speculative_config", "method")
            if isinstance(value, str) and value not in choices and not is_method:
                yield _hit(subject, setting.name, f"{setting.name}.{key}", value, choices)
    given = mapping(subject, "compilation_config")
    for key, choices in COMPILATION.items():
        value = str(given.get(key, "none")).upper()
        if value not in choices:
            yield _hit(subject, "compilation_config", f"compilation_config.{key}", value, choices)


def _hit(subject: Subject, option: str, name: str, value: str, choices: tuple[str, ...]) -> Hit:
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
    fix = (f"did you mean `{near[0]}`? " if near else "") + f"All choices: {', '.join(choices)}"
    what = f"`{name}: {value}` is not a choice of vLLM {subject.specs.flags.release}"
    return Hit(option_place(subject, option), what, "the engine's parser refuses it", fix, weight(subject))
