"""A served name promises a window of a million tokens that the engine does not have.

## What it flags
A served name that ends in `[1m]` with a window below 1,000,000 tokens.

## Why it hurts
Claude Code takes the suffix as a window of exactly one million. It compacts far too late, and every request beyond
the real window is refused in the middle of the work.

## Example
    names: [{name: "claude-qwen38[1m]"}]
    settings: {max_model_len: 262144}

## Use instead
    names: [{name: qwen38}]      # a bare name, and CLAUDE_CODE_MAX_CONTEXT_TOKENS, which the client section sets

## When to ignore
When no Claude Code client uses the name.

## Source
The decompiled client of 2026-08-26: the branch is hard-coded.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX006", name="million-suffix-on-smaller-window", severity=Severity.ERROR, served=True, traps=("suffix-1m-forbidden",))


MILLION = 1_000_000


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each name that promises too much."""
    window = subject.plan.engine.max_model_len
    for name in subject.plan.model.served_names:
        if name.endswith("[1m]") and window < MILLION:
            of_profile = [n.name for n in subject.specs.profile.names]
            place = subject.place("profile", "names", of_profile.index(name)) if name in of_profile else subject.place("model", "aliases")
            yield Hit(
                place,
                f"the served name {name} stands for a million tokens, and the window is {window:,}",
                "the client compacts too late, and requests beyond the window are refused",
                "serve the name without its suffix",
            )
