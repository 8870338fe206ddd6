"""A choice departs from the engine's default and does not say why.

## What it flags
A setting or argument of any spec whose value is not the engine's default, without a `reason`; a method of speculation
without one.

## Why it hurts
Nobody dares to remove it later, and nobody knows what it was measured against.

## Example
    settings: {max_num_seqs: 64}

## Use instead
    settings: {max_num_seqs: {value: 64, reason: Eight lost 9 % of aggregate speed.}}

## When to ignore
In a profile that is only tried out.

## Source
Defaults in the flag snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options

RULE = Rule(code="EVD001", name="choice-without-reason", severity=Severity.WARNING, traps=("spec-transfer",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unexplained choice."""
    for written in written_options(subject):
        flag = subject.specs.flags.find(written.dest)
        if flag is not None and written.choice.reason is None and written.choice.value not in (flag.default, None):
            default = "own choice" if flag.default is None else f"default, {flag.default},"
            what = f"`{written.key}: {written.choice.value}` departs from the engine's {default} and says no reason"
            yield Hit(written.place, what, "nobody dares to change it later", "write {value: ..., reason: ...}", on_key=True)
    chosen = subject.specs.profile.speculation
    if chosen is not None and chosen.method != "off" and chosen.reason is None:
        what = f"speculation by {chosen.method} says no reason"
        yield Hit(
            subject.place("profile", "speculation"),
            what,
            "it wins on one model and loses on another",
            "add a reason and its evidence",
            on_key=True,
        )
