"""Bytes of one state page and the number of state blocks that a request holds.

Source: vLLM 0.27.1, ``model_executor/layers/mamba/mamba_utils.py`` and ``platforms/interface.py``.
"""

from __future__ import annotations

from math import ceil, lcm

from compiler.resolve.memory.inputs import LayerGroup, MambaMode, StateDims

SSM_BYTES = {"float32": 4, "float16": 2, "half": 2, "bfloat16": 2, "float8": 1, "fp8": 1}
CONV_BYTES = 2  # the convolution state follows the model's 16-bit dtype in every record


def state_bytes(group: LayerGroup, tp: int, spec_tokens: int = 0, dtype: str | None = None) -> int:
    """Bytes of the state of one request in one layer of one rank.

    ``spec_tokens`` lengthens the convolution window; ``dtype`` overrides the recurrent state's dtype.
    Raises ``ValueError`` for a layer without a state or for an unknown dtype.
    """
    dims = group.state
    if dims is None:
        raise ValueError(f"a {group.kind} layer keeps no state")
    name = dtype if dtype not in (None, "auto") else dims.ssm_dtype
    if name not in SSM_BYTES:
        raise ValueError(f"unknown state dtype {name!r}")
    # KDA keeps its recurrent state in float32 whatever is asked (0.33 also takes bfloat16, when asked).
    width = 4 if group.kind == "kda" else SSM_BYTES[name]
    rows = dims.conv_kernel - 1 + spec_tokens
    tp = 1 if dims.is_replicated else tp
    conv = ceil(_conv_width(group.kind, dims, tp) / tp) * rows * CONV_BYTES
    return conv + ceil(dims.v_heads / tp) * dims.v_dim * dims.k_dim * width


def hybrid_block(state: int, attention: int, minimum: int, mode: MambaMode, chunk: int) -> int:
    """Tokens of an attention block whose page covers one state page of ``state`` bytes.

    ``attention`` is bytes per token of an attention layer, ``minimum`` the smallest block of the kernel. Mode
    ``all`` counts in whole chunks of the model, because a state is saved at each block's end.
    """
    unit = lcm(chunk, minimum) if mode == "all" else minimum
    if mode == "all":
        return unit * ceil(ceil(state / attention) / unit)
    return unit * ceil(state / (unit * attention))


def state_blocks(mode: MambaMode, length: int, block: int, extra: int) -> int:
    """Blocks that one request of ``length`` tokens holds in one state group; ``extra`` are those of drafts and checkpoints."""
    if mode == "all":
        return -(-length // block) + extra
    return (2 if mode == "align" else 1) + extra


def _conv_width(kind: str, dims: StateDims, tp: int) -> int:
    """Channels of the convolution over all ranks; Mamba2 groups that do not divide are raised to ``tp``."""
    inner = dims.v_heads * dims.v_dim
    if kind == "conv":
        return inner
    if kind == "mamba2":
        groups = dims.groups if dims.groups % tp == 0 else max(dims.groups, tp)
        return inner + 2 * groups * dims.k_dim
    return inner + 2 * (dims.k_heads or dims.v_heads) * dims.k_dim
