"""Settings of the state cache contradict each other.

## What it flags
`mamba_block_size` without prefix caching (but for the window itself); `mamba_block_size` in mode `all` from which no block comes
that is a multiple of the model's scan chunk; `mamba_cache_mode: align` with prefix caching and without chunked prefill. A warning
for mode `none` with prefix caching.

## Why it hurts
The first and the last are refused by the engine's configuration. The second starts, corrupts states silently, and
dies later. Mode `none` is replaced by the engine, and the plan's cache is not the one it makes.

## Example
    settings: {mamba_cache_mode: all, enable_prefix_caching: true}
    engine_args: {mamba_block_size: 400}      # the model scans in chunks of 128, and the block becomes 2,400

## Use instead
Leave `mamba_block_size` unset: the engine aligns it.

## When to ignore
Never.

## Source
0.26's to 0.33's configuration (`validate_mamba_block_size`, `MambaModelConfig`); 0.27.1 asked with a block of 400 in mode all;
vllm#57278, vllm#34445.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import number, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC010", name="state-cache-settings-refused", severity=Severity.ERROR, refusal=True,
    traps=("mamba-block-all-chunk", "mamba-block-no-prefix", "mamba-prefix-needs-chunked"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each contradiction."""
    block, mode = number(subject, "mamba_block_size"), subject.setting("mamba_cache_mode")
    caching = subject.setting("enable_prefix_caching")
    place, unset = subject.setting_place("mamba_block_size"), Edit("remove", subject.setting_place("mamba_block_size"))
    if block is not None and not caching and block != subject.plan.engine.max_model_len:
        yield Hit(
            place, "mamba_block_size is set and prefix caching is off",
            "the engine refuses: the option only exists with prefix caching", "remove mamba_block_size", edit=unset,
        )  # fmt: skip
    if mode == "none" and caching:
        yield Hit(
            subject.setting_place("mamba_cache_mode"), "mamba_cache_mode none with prefix caching",
            "the engine takes another mode in its place, and the cache comes out smaller", "remove it, or turn prefix caching off",
            severity=Severity.WARNING,
        )  # fmt: skip
    if mode == "align" and caching and subject.setting("enable_chunked_prefill") is False:
        yield Hit(
            subject.setting_place("enable_chunked_prefill"), "mamba_cache_mode align with chunked prefill off",
            "the engine asserts that prefills are chunked in this mode", "leave enable_chunked_prefill on",
        )  # fmt: skip
    if block is not None and mode == "all" and caching and older(subject, 0, 32):
        yield from _cut_states(subject, block, unset)


def _cut_states(subject: Subject, block: float, unset: Edit) -> Iterator[Hit]:
    chunks = [layer.chunk for layer in subject.specs.model.architecture.kv if layer.kind == "mamba2"]
    planned = subject.plan.memory.block_size
    if any(planned % chunk for chunk in chunks):
        yield Hit(
            subject.setting_place("mamba_block_size"),
            f"mamba_block_size {block:g} makes blocks of {planned:,} tokens, no multiple of the scan chunk {max(chunks)}",
            "states are stored at the wrong places: silent corruption, then a dead engine", "remove mamba_block_size", edit=unset,
        )  # fmt: skip
