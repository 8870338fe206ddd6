"""An `ignore:` entry tries to accept an error after which the pod does not serve.

## What it flags
An entry under `ignore:` for a rule whose errors mean that the engine refuses the configuration, or serves wrong text.

## Why it hurts
A refusal is not a matter of taste: the pod would be rented, would download the weights and would then exit.

## Example
    ignore:
      - {rule: CTX010, reason: we know}      # the engine refuses a batch below max_num_seqs

## Use instead
Change the setting that the error names, and remove the entry.

## When to ignore
Never. If the engine's release does accept the configuration, the rule is wrong: correct the rule.

## Source
A rule of this compiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.ignores import IgnoreUse
from compiler.lint.rule import Hit, Rule

RULE = Rule(code="IGN003", name="ignored-refusal", severity=Severity.WARNING, stage="ignores")


def check_entry(use: IgnoreUse) -> Iterator[Hit]:
    """A hit when a finding of that code stays although it is ignored."""
    if use.kept:
        yield Hit(
            use.place,
            f"{use.code} cannot be ignored: the pod would not serve",
            "accepting the finding does not change what the engine does",
            "mend what the error names, then remove the entry",
        )
