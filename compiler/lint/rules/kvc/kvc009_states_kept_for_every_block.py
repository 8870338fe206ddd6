"""The prefix cache keeps the state of every block instead of the last ones.

## What it flags
A hybrid model with prefix caching and `mamba_cache_mode: all`, or with the mode unset where the engine then takes
`all` (Mamba-2 layers). An information on Gated DeltaNet and Kimi layers, where the engine turns `all` into `align`.

## Why it hurts
A state is as large as thousands of tokens of cache. Kept for every block it left 1,257,472 instead of 5,108,531
tokens on one card, at no measured gain.

## Example
    settings:
      enable_prefix_caching: true
      mamba_cache_mode: all

## Use instead
    settings:
      enable_prefix_caching: true
      mamba_cache_mode: align

## When to ignore
When a workload branches from many points of one long prefix, and the smaller cache was measured to be enough.

## Source
`nemotron-ada-all-kv`, `nemotron-ada-align-kv`, `nemotron-align-kv-gain`; an early +11 % for `all` was retracted.
0.27.1 asked with a Qwen3.5 config: `all` becomes `align`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, layer_kinds
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC009", name="states-kept-for-every-block", severity=Severity.WARNING, traps=("mamba-all", "mamba-all-auto"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the mode is `all`, by choice or by default."""
    mode = subject.setting("mamba_cache_mode")
    caching = subject.setting("enable_prefix_caching")
    defaults_to_all = mode is None and caching is True and "mamba2" in layer_kinds(subject)
    if mode == "all" and is_hybrid(subject) and "mamba2" not in layer_kinds(subject):
        yield Hit(
            subject.setting_place("mamba_cache_mode"), "mamba_cache_mode is all, and this model's layers only know align",
            "the engine turns it into align, so the profile says what is not done", "set mamba_cache_mode to align",
            severity=Severity.INFO,
        )  # fmt: skip
    elif is_hybrid(subject) and (mode == "all" or defaults_to_all):
        what = "mamba_cache_mode is all" if mode else "mamba_cache_mode is unset, which means all for Mamba-2 layers"
        yield Hit(
            subject.setting_place("mamba_cache_mode" if mode else "enable_prefix_caching"),
            what,
            "states of every block are kept: a quarter of the tokens was left on the card where it was measured",
            "set mamba_cache_mode to align",
        )
