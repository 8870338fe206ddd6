"""Typical prompts are shorter than one cache block, so the prefix cache never hits.

## What it flags
A hybrid model with prefix caching, no `prefix_match_unit`, and a workload whose typical prompt is shorter than one
block.

## Why it hurts
Hybrids match prefixes by whole blocks, and their blocks are large (784 to 4,700 tokens): 0 of 520,101 tokens were
found in one week of service, with the cache reported as on.

## Example
    workload: {sessions: 16, typical_prompt: 1500}      # blocks of 2,768 tokens

## Use instead
    settings:
      prefix_match_unit: 16          # where 16 divides the block
      mamba_ssm_cache_dtype: float16

## When to ignore
When prompts are usually longer than stated.

## Source
`l-prefix-cache-dead`, `l-prefix-fix-403`, `l-prefix-fix-7699`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC012", name="prefix-cache-cannot-hit", severity=Severity.WARNING, traps=("prefix-cache-dead",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no typical prompt fills a block."""
    workload = subject.specs.profile.workload
    block = subject.plan.memory.block_size
    caching = subject.setting("enable_prefix_caching") is True and subject.setting("prefix_match_unit") is None
    if is_hybrid(subject) and caching and workload is not None and workload.typical_prompt is not None and workload.typical_prompt < block:
        yield Hit(
            subject.place("profile", "workload", "typical_prompt"),
            f"typical prompts of {workload.typical_prompt:,} tokens, and prefixes are matched by blocks of {block:,}",
            "no prompt fills a block, so nothing is ever found in the prefix cache",
            "set prefix_match_unit to a small divisor of the block",
        )
