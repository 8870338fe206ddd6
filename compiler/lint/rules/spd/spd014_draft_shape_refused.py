"""The depth or the lookup range of the drafts is one that the engine refuses.

## What it flags
More draft tokens than MTP layers that are no multiple of them; `lookup_min` above `lookup_max`.

## Why it hurts
The engine's speculative configuration refuses both before anything is loaded.

## Example
    speculation: {method: ngram, tokens: 12, lookup_min: 8, lookup_max: 4}

## Use instead
    speculation: {method: ngram, tokens: 12, lookup_min: 2, lookup_max: 8}

## When to ignore
Never: the engine refuses.

## Source
0.27.1's speculative configuration, asked with a reversed range.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import draft_tokens, mapping, option_place, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD014", name="draft-shape-refused", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the depth, and one for the range."""
    config, method, mtp = mapping(subject, "speculative_config"), speculation_method(subject), subject.specs.model.mtp
    depth = draft_tokens(subject) or 0
    if method == "mtp" and mtp is not None and depth > mtp.layers and depth % mtp.layers:
        what = f"{depth} draft tokens from a head of {mtp.layers} layers"
        place = subject.place("profile", "speculation", "tokens")
        yield Hit(place, what, "the engine refuses a depth that is no multiple of the head", f"set speculation.tokens to {mtp.layers}")
    low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        what, place = f"n-grams of at least {low} and at most {high} tokens", option_place(subject, "speculative_config")
        yield Hit(place, what, "the engine refuses the range", f"set prompt_lookup_min to {high} or less")
