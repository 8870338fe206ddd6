"""The prefix cache is off on a model that could use it.

## What it flags
`enable_prefix_caching: false`, or unset on a hybrid model (where the engine leaves it off), for a model whose
prefixes can be kept.

## Why it hurts
A coding agent sends its whole history with every turn. Without the prefix cache all of it is computed again: time to
the first token was sixteen times longer at the same decode speed.

## Example
    model: nemotron                  # a hybrid: prefix caching is opt-in
    settings: {max_num_seqs: 64}

## Use instead
    settings:
      enable_prefix_caching: true
      mamba_cache_mode: align

## When to ignore
For a benchmark of cold prefills, or for independent prompts that share nothing.

## Source
`nemotron-ttft-warm`, `nemotron-pro6000-no-prefix-cache-solo`; vllm#40691.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC011", name="prefix-caching-off", severity=Severity.WARNING, traps=("no-prefix-cache-trap", "hybrid-prefix-opt-in"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when prefixes are thrown away, by choice or by default."""
    caching = subject.setting("enable_prefix_caching")
    off_by_default = caching is None and is_hybrid(subject)
    if subject.specs.model.architecture.prefix_caching and (caching is False or off_by_default):
        what = "prefix caching is off by default on hybrid models" if caching is None else "prefix caching is switched off"
        yield Hit(
            subject.setting_place("enable_prefix_caching"),
            what,
            "every turn of an agent computes its whole history again: sixteen times the wait was measured",
            "set enable_prefix_caching to true",
        )
