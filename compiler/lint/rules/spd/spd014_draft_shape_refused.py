"""The depth or the lookup range of the drafts is one that the engine refuses.

## What it flags
More draft tokens than MTP layers that are no multiple of them; `lookup_min` above `lookup_max`; a draft on a number of ranks that is neither
1 nor the model's, or under the model's own key for it.

## Why it hurts
The engine's speculative configuration refuses each before anything is loaded.

## Example
    speculation: {method: ngram, tokens: 12, lookup_min: 8, lookup_max: 4}

## Use instead
    speculation: {method: ngram, tokens: 12, lookup_min: 2, lookup_max: 8}

## When to ignore
Never: the engine refuses.

## Source
0.27.1's speculative configuration, asked with a reversed range; the checks of its 0.26.0, 0.27.1 and 0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import draft_tokens, mapping, option_place, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD014", name="draft-shape-refused", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the depth, one for the range, and those for the ranks."""
    config = mapping(subject, "speculative_config")
    if config.get("model") and config.get("method") in ("eagle", "eagle3", "draft_model") and draft_tokens(subject) is None:
        place, why = option_place(subject, "speculative_config"), "the engine refuses, unless the draft's own config names a depth"
        yield Hit(place, "a draft model without num_speculative_tokens", why, "write how many tokens to draft", severity=Severity.WARNING)
    low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        what, place = f"n-grams of at least {low} and at most {high} tokens", option_place(subject, "speculative_config")
        yield Hit(place, what, "the engine refuses the range", f"set prompt_lookup_min to {high} or less")
    place, ranks, own = option_place(subject, "speculative_config"), subject.plan.engine.tensor_parallel, config.get("draft_tensor_parallel_size")
    if isinstance(own, int) and own not in (1, ranks):
        what = f"the draft on {own} ranks, and the model on {ranks}"
        yield Hit(place, what, "the engine takes 1 or as many as the model has", f"set draft_tensor_parallel_size to 1 or {ranks}")
    if config.get("tensor_parallel_size") is not None:
        what = "the draft's ranks stand under tensor_parallel_size"
        yield Hit(place, what, "the engine refuses that key here", "write draft_tensor_parallel_size")
    if speculation_method(subject) == "mtp":
        yield from _uneven_depth(subject)


def _uneven_depth(subject: Subject) -> Iterator[Hit]:
    mtp, depth = subject.specs.model.mtp, draft_tokens(subject) or 0
    if mtp is not None and depth > mtp.layers and depth % mtp.layers:
        what = f"{depth} draft tokens from a head of {mtp.layers} layers"
        place = subject.place("profile", "speculation", "tokens")
        yield Hit(place, what, "the engine refuses a depth that is no multiple of the head", f"set speculation.tokens to {mtp.layers}")
