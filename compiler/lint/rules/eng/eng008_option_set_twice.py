"""One spec sets the same engine option twice.

## What it flags
Two keys of one spec that mean one option: in `settings` and again in `engine_args`, with dashes and with underscores,
or by an alias.

## Why it hurts
One of them wins, and the other, which a reader may believe, does nothing.

## Example
    settings: {max_num_seqs: 64}
    engine_args: {max-num-seqs: 8}

## Use instead
    settings: {max_num_seqs: 64}

## When to ignore
Never: remove one.

## Source
The spellings in the flag snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import Written, written_options

RULE = Rule(code="ENG008", name="option-set-twice", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each further key of one spec for an option that it has set already."""
    first: dict[tuple[str, str], Written] = {}
    for written in written_options(subject):
        earlier = first.setdefault((written.kind, written.dest), written)
        if earlier is not written:
            same = earlier.choice.value == written.choice.value
            what = f"`{written.key}` sets the same option as `{earlier.section}.{earlier.key}`"
            why = "the second one says nothing new" if same else "two values stand there, and only the second one is used"
            edit = Edit("remove", written.place) if same else None
            yield Hit(written.place, what, why, "keep one of them", severity=Severity.WARNING if same else None, on_key=True, edit=edit)
