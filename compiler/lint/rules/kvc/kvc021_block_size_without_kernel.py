"""No attention kernel works with blocks of this size.

## What it flags
A `block_size` that is no multiple of 16.

## Why it hurts
The engine finds no attention backend: `Reasons: {FLASH_ATTN: [block_size not supported], ...`.

## Example
    settings: {block_size: 24}

## Use instead
Leave `block_size` unset: the engine takes 16, or on hybrids what its states need.

## When to ignore
Never: the engine refuses.

## Source
0.27.1 asked with blocks of 24 tokens; the block sizes in the release's snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import number, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC021", name="block-size-without-kernel", severity=Severity.ERROR, refusal=True)


UNIT = 16


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for an odd block."""
    block = number(subject, "block_size")
    if block is not None and block % UNIT and on_gpu(subject):
        yield Hit(
            subject.setting_place("block_size"),
            f"blocks of {block:g} tokens",
            f"every kernel wants a multiple of {UNIT}, and the engine finds no attention backend",
            f"leave block_size unset, or set it to {max(UNIT, int(block) // UNIT * UNIT)}",
        )
