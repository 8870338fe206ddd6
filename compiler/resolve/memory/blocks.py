"""Blocks: how many tokens one holds, how many a request has in flight, and what a page of each layer takes.

Source: vLLM 0.27.1, ``config/vllm.py`` (``max_concurrent_batches``) and ``platforms/interface.py`` (``_align_hybrid_block_size``).
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from compiler.resolve.memory import pages, releases, states
from compiler.resolve.memory.inputs import LayerGroup, MemoryInputs

KERNEL_BLOCK = 16
MLA_BLOCK = 64
GDN_CHECKPOINT_GRID = 64  # FlashInfer's prefill exports states at multiples of it
FLASHINFER_GDN_FAMILIES = (10, 12)  # besides 9.0; there with 128 wide keys and CUDA 13


def inflight_tokens(inputs: MemoryInputs) -> int:
    """Tokens that may be in flight beside a sliding window: one batch before 0.26, then one for each
    batch that may be scheduled at once (``config/vllm.py: max_concurrent_batches``)."""
    if not releases.BATCHES_IN_FLIGHT.at(inputs.release):
        return inputs.batch
    if not inputs.async_scheduling:
        return inputs.batch * inputs.pp
    if inputs.pp == 1:
        return inputs.batch * 2
    return inputs.batch * (inputs.pp + 1 if inputs.model_runner == "V2" else inputs.pp)


def extra_states(inputs: MemoryInputs, kind: str) -> int:
    """State blocks that drafts and, in mode ``align``, a checkpoint inside a prefill add to each request."""
    mode, release = inputs.state_mode, inputs.release
    law = releases.DRAFTS_ADD_STATES_IN_ALL if mode == "all" else releases.DRAFTS_ADD_STATES
    drafts = inputs.spec_tokens if law.at(release) else 0
    if mode != "align":
        return drafts
    if kind == "mamba2":
        return drafts + releases.MAMBA2_CHECKPOINT.at(release)
    return drafts + (releases.GDN_CHECKPOINT.at(release) if kind == "gdn" and exports_gdn_checkpoints(inputs) else 0)


def exports_gdn_checkpoints(inputs: MemoryInputs) -> bool:
    """True where the engine's own choice for the prefill of GDN layers is FlashInfer, which keeps states inside a prefill
    (``qwen_gdn_linear_attn.py: _resolve_gdn_prefill_backend``): compute capability 9.0, 10.x and 12.x."""
    capability = inputs.card.capability
    widths = {group.state.k_dim for group in inputs.groups if group.kind == "gdn" and group.state is not None}
    if not releases.GDN_CHECKPOINT.at(inputs.release) or inputs.state_mode != "align" or capability is None or not widths:
        return False
    return capability == (9, 0) or (capability[0] in FLASHINFER_GDN_FAMILIES and widths == {128})


def minimum_block(inputs: MemoryInputs) -> int:
    """The configured block, or the kernel's own."""
    usual = MLA_BLOCK if inputs.is_mla else KERNEL_BLOCK
    return inputs.block_size or usual


def token_bytes(shape: LayerGroup, inputs: MemoryInputs) -> int:
    """Bytes of one token in one layer of ``shape``."""
    return pages.token_bytes(shape, inputs.kv_dtype, inputs.tp, inputs.shape.dtype_bytes)


def state_bytes(shape: LayerGroup, inputs: MemoryInputs) -> int:
    """Bytes of one request's state in one layer of ``shape``."""
    drafts = inputs.spec_tokens if shape.kind != "kda" or releases.KDA_KEEPS_DRAFTS.at(inputs.release) else 0
    return states.state_bytes(shape, inputs.tp, drafts, inputs.mamba_cache_dtype)


def _drafted(inputs: MemoryInputs) -> int:
    """Groups of layers that a draft brings; they stand last."""
    return len(inputs.speculation.groups) if inputs.speculation else 0


def hybrid_block(attention: list[LayerGroup], state: list[LayerGroup], inputs: MemoryInputs) -> int:
    """The attention block whose page covers the largest state."""
    minimum = inputs.block_size or KERNEL_BLOCK
    if inputs.is_mla:  # 0.26.0 on an H200 took 1,888 tokens, 118 times 16
        minimum = max(minimum, releases.HYBRID_LATENT_BLOCK.at(inputs.release))
    if exports_gdn_checkpoints(inputs):
        minimum = lcm(minimum, GDN_CHECKPOINT_GRID)
    chunk = inputs.mamba_block_size or max((s.state.chunk for s in state if s.state is not None), default=1)
    largest = max(state_bytes(shape, inputs) for shape in state)
    # The platform aligns to the target's layers; a draft's come later and only lengthen or pad.
    own = {replace(group, layers=1) for group in inputs.groups[: len(inputs.groups) - _drafted(inputs)]}
    widest = max(token_bytes(shape, inputs) for shape in attention if replace(shape, layers=1) in own)
    return states.hybrid_block(largest, widest, minimum, inputs.state_mode, chunk)
