"""An engine option was removed before this release.

## What it flags
A key of `engine_args` or `settings` that earlier releases had and this one has not.

## Why it hurts
The engine refuses its whole command line. Recipes on the web still carry such options.

## Example
    engine_args: {max_num_partial_prefills: 4}

## Use instead
Remove it. The message names what took its place.

## When to ignore
Never: the engine refuses.

## Source
The flag snapshots: each row of the table is absent from at least one of them, and a test proves that.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Place, Severity
from compiler.lint.removed_options import REMOVED, RENAMED
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import refusal, weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG002", name="option-removed", severity=Severity.ERROR, traps=("partial-prefills-no-gain",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each removed option."""
    flags = subject.specs.flags
    for setting in subject.plan.engine.settings:
        if flags.find(setting.name) is None and setting.name in REMOVED:
            what = f"`{setting.name}` was removed; vLLM {flags.release} does not know it"
            place = option_place(subject, setting.name)
            yield Hit(place, what, refusal(subject), REMOVED[setting.name], weight(subject), on_key=True, edit=_edit(place, setting.name))


def _edit(place: Place, name: str) -> Edit | None:
    """The new name where the value stays as it is, or the end of an option that nothing took the place of."""
    if name in RENAMED:
        return Edit("rename", place, RENAMED[name])
    return Edit("remove", place) if REMOVED[name].startswith("remove it") else None
