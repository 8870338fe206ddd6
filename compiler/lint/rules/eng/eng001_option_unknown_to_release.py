"""An engine option does not exist in this release.

## What it flags
A key of `engine_args` or `settings` that the release's own parser does not know.

## Why it hurts
The engine refuses its whole command line: `error: unrecognized arguments`. The pod is paid for and serves nothing.

## Example
    engine_args: {max_num_batch_tokens: 8192}

## Use instead
    engine_args: {max_num_batched_tokens: 8192}

## When to ignore
Never: the engine refuses.

## Source
The flag snapshot of the release, taken from its real parser.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.removed_options import REMOVED
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import refusal, weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG001", name="option-unknown-to-release", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each option that the parser lacks and that was not removed under a known name."""
    flags = subject.specs.flags
    for setting in subject.plan.engine.settings:
        if flags.find(setting.name) is None and setting.name not in REMOVED:
            name = setting.name
            positive = name.removeprefix("no_")
            if name.startswith("no_") and flags.find(positive):
                fix = f"write `{positive}: false`"
            else:
                near = flags.nearest(name)
                fix = f"did you mean `{near}`?" if near else "remove it, or choose a release that has it"
            what = f"vLLM {flags.release} has no option `{name}`"
            yield Hit(option_place(subject, name), what, refusal(subject), fix, weight(subject), on_key=True)
