"""A number is outside of what the option takes.

## What it flags
Sizes, counts and shares below the engine's lowest value or above its highest: a memory utilization written in percent, no sequences,
no ranks, a window of 0.

## Why it hurts
The engine's configuration refuses it before anything is loaded.

## Example
    settings: {gpu_memory_utilization: 90}

## Use instead
    settings: {gpu_memory_utilization: 0.90}

## When to ignore
Never: the engine refuses.

## Source
The bounds of the fields in the configuration classes of 0.26.0, 0.27.1 and 0.33.0, equal in all three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, number
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG024", name="number-out-of-range", severity=Severity.ERROR, refusal=True)

_COUNTS = (
    "block_size", "data_parallel_size", "decode_context_parallel_size", "mamba_block_size", "max_loras", "max_num_batched_tokens", "max_num_seqs",
    "max_parallel_loading_workers", "nnodes", "pipeline_parallel_size", "prefill_context_parallel_size", "prefix_match_unit", "stream_interval",
    "tensor_parallel_size",
)  # fmt: skip
_AMOUNTS = ("cpu_offload_gb", "data_parallel_rank", "data_parallel_size_local", "long_prefill_token_threshold", "node_rank", "ubatch_size")
_BOUNDS = dict.fromkeys(_COUNTS, (1.0, math.inf)) | dict.fromkeys(_AMOUNTS, (0.0, math.inf))
_DRAFTS = ("draft_tensor_parallel_size", "max_model_len", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each number out of its bounds."""
    share = number(subject, "gpu_memory_utilization")
    if share is not None and not 0 < share <= 1:
        fix = f"write {share / 100:g}" if 1 < share <= 100 else "write a share above 0 and at most 1"
        yield _hit(subject, "gpu_memory_utilization", f"gpu_memory_utilization {share:g} is no share of the card's memory", fix)
    window = number(subject, "max_model_len")
    if window is not None and (window == 0 or window < -1):
        yield _hit(subject, "max_model_len", f"a window of {window:g} tokens", "write the window, or -1 for the largest that fits")
    for name, (low, high) in _BOUNDS.items():
        value = number(subject, name)
        if value is not None and not low <= value <= high:
            yield _hit(subject, name, f"{name} {value:g} is below {low:g}", f"write {low:g} or more, or leave it out")
    drafts = mapping(subject, "speculative_config")
    for name in _DRAFTS:
        value = drafts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            yield _hit(subject, "speculative_config", f"speculative_config.{name} {value} is below 1", "write 1 or more, or leave it out")


def _hit(subject: Subject, option: str, what: str, fix: str) -> Hit:
    return Hit(option_place(subject, option), what, "the engine's configuration refuses it before anything is loaded", fix, weight(subject))
