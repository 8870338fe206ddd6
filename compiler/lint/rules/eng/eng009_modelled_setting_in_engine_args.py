"""A setting that podwright understands hides in `engine_args`.

## What it flags
A key of `engine_args` that `settings` has as well.

## Why it hurts
`settings` checks it when the file is read, takes units such as `256Ki`, and shows it in the documentation;
`engine_args` passes it through.

## Example
    engine_args: {max_num_seqs: 64}

## Use instead
    settings: {max_num_seqs: 64}

## When to ignore
Harmless: the value is used either way.

## Source
The spec schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options
from compiler.schema.base import EngineSettings

RULE = Rule(code="ENG009", name="modelled-setting-in-engine-args", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each modelled setting among the arguments."""
    for written in written_options(subject):
        if written.section == "engine_args" and written.dest in EngineSettings.model_fields:
            section = "settings" if written.kind == "profile" else "engine"
            what = f"`engine_args.{written.key}` is a setting that podwright understands"
            yield Hit(
                written.place,
                what,
                "there it takes units and is checked as it is read",
                f"move it to `{section}.{written.dest}`",
                on_key=True,
            )
