"""What the engine takes beside weights and cache: activations, CUDA graphs, and what is outside PyTorch.

No closed form exists, so each part is an interval in GiB. Where the engine allocates by a law that its
sources and records show (the sampler's copies of the logits, the width of a batch), the law gives the middle;
constants were fitted on the start-ups in ``tests/cases/memory_planner.yaml`` and stand in ``docs/memory.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot

from compiler.plan.memory import GIB, Interval
from compiler.resolve.memory import releases
from compiler.resolve.memory.groups import cache_layout
from compiler.resolve.memory.inputs import MIB, CardMemory, LayerGroup, MemoryInputs

USUAL_VOCAB = 152_064
USUAL_HIDDEN = 5_120
USUAL_LATENT_HEADS = 64
LIBRARY_WORKSPACE = 0.03125  # GiB, 32 MiB that cuBLAS takes at the first product
SHARED_MEMORY = ("gb10", "spark")
SMALL_CARD_MIB = 12_288
GRAPH_SIZES_FULL = 51  # sizes up to 512, the most that a default start captures


@dataclass(frozen=True, slots=True)
class Overhead:
    """GiB on one rank. ``graphs_charged`` lowers the cache, ``graphs_used`` is what capture really takes,
    ``outside`` is what the process holds beyond its share once it serves."""

    activation: Interval
    non_torch: Interval
    graphs_charged: Interval
    graphs_used: Interval
    outside: Interval


def overhead(inputs: MemoryInputs) -> Overhead:
    """All parts for ``inputs``."""
    charged, used = _graphs_charged(inputs), _graphs_used(inputs)
    return Overhead(_activation(inputs), _non_torch(inputs), charged, used, _outside(inputs, charged, used))


def card_total_gib(card: CardMemory) -> Interval:
    """What CUDA reports. From nvidia-smi's MiB the driver's own share is taken off: about 400 MiB and 0.2 %,
    within 100 MiB on six kinds of GPU, up to 400 more on an A100 (all in ``docs/memory.md``). A small GPU under Windows
    or WSL2 may give all of it."""
    if card.total_bytes is not None:
        total = card.total_bytes / GIB
        return Interval(total, total, total)
    mib = card.vram_mib or 0
    # A tiny or virtual GPU keeps at least nine tenths, so the estimate can never go below zero.
    kept = max(mib - (400 + 0.002 * mib), mib * 0.9)
    scale = MIB / GIB
    most = float(mib) if mib <= SMALL_CARD_MIB else min(kept + 130, float(mib))
    return Interval(max(kept - 320, mib * 0.88) * scale, kept * scale, most * scale)


def is_small_eager(inputs: MemoryInputs) -> bool:
    """A GPU of up to 12 GB without graphs: two starts there had 0.2 GiB more cache than the laws of large GPUs admit."""
    card = inputs.card
    mib = card.vram_mib if card.total_bytes is None else card.total_bytes / MIB
    return inputs.enforce_eager and (mib or 0) <= SMALL_CARD_MIB


def context_gib(card: CardMemory) -> Interval:
    """CUDA context, taken before the first snapshot and counted nowhere: 0.51 on an H200."""
    small = card.total_bytes is not None and card.total_bytes < 30 * GIB
    return Interval(0.2, 0.35 if small else 0.5, 0.75)


def spread(parts: list[Interval], sign: int) -> float:
    """Distance of the joint bound from the joint middle when the parts vary independently (root of squares).

    ``sign`` +1 gives how far the sum may rise, -1 how far it may fall.
    """
    return hypot(*((p.high - p.mid if sign > 0 else p.mid - p.low) for p in parts))


def logits_gib(inputs: MemoryInputs) -> float:
    """One float32 copy of the logits of all sequences: max_num_seqs * vocabulary * 4 bytes."""
    rows = min(inputs.sequences, inputs.batch)
    return rows * (inputs.shape.vocab or USUAL_VOCAB) * 4 / GIB


def widest_logits_gib(inputs: MemoryInputs) -> float:
    """Logits at the sampler's peak, at most. The records up to 0.11 do not state their sequences and follow the engine's own
    number; nothing shows that fewer took less, so the bound keeps it."""
    if inputs.release >= (0, 12, 0) or inputs.max_num_seqs is None:
        return logits_gib(inputs)
    return max(logits_gib(inputs), logits_gib(replace(inputs, max_num_seqs=None)))


def sampler_factor(inputs: MemoryInputs) -> Interval:
    """Copies of the float32 logits alive at the sampler's peak.

    V1 sorts for top-k and top-p while it profiles: logits, sorted values and 8-byte indices. V2
    profiles without. Releases up to 0.11 needed 9.2 in each of five records,
    and about four where the batch of sequences was not stated.
    """
    if inputs.model_runner == "V2":
        return Interval(0.8, 1.0, 1.6)
    if inputs.release < (0, 12, 0):
        return Interval(3.0, 9.2, 10.2)
    if inputs.release < (0, 21, 0):
        return Interval(3.0, 4.5, 10.0)
    return Interval(0.8 if is_small_eager(inputs) else 3.4, 3.7, 4.6)


def _activation(inputs: MemoryInputs) -> Interval:
    """Peak of one profiling batch: the largest of forward pass, sampler and first compilation, which follow each
    other, plus what stays allocated beside them."""
    factor, logits = sampler_factor(inputs), logits_gib(inputs)
    # Any draft doubles the rows: one draft token a sequence is profiled, however many are proposed.
    drafts = Interval(1.8, 2.0, 2.6) if inputs.spec_tokens else Interval(1.0, 1.0, 1.0)
    forward, cold, stays = _forward_gib(inputs), _compile_gib(inputs), _expert_workspace_gib(inputs)
    # The target is compiled before its experts run for the first time, a draft after them.
    before = 0.0 if inputs.spec_tokens else 1.0
    low = max(forward.low, factor.low * drafts.low * logits, cold.low - before * stays.low) + stays.low + 0.03
    mid = max(forward.mid, factor.mid * drafts.mid * logits, cold.mid - before * stays.mid) + stays.mid + LIBRARY_WORKSPACE
    high = max(forward.high, factor.high * drafts.high * widest_logits_gib(inputs), cold.high - before * stays.high) + stays.high + 0.4
    if encoder_runs(inputs):
        mid, high = mid + 0.1, high + 1.0
    return Interval(low, mid, high)


def _forward_gib(inputs: MemoryInputs) -> Interval:
    """Live tensors of one forward pass: a few hidden rows, and the widest of an MLP, a state layer and a latent's
    workspace, since layers follow each other and free what they used.

    The profile never runs a state layer's own kernel at full width, so only its projections count here; the kernel's
    tensors mostly fit into what the other parts leave once it serves (``docs/memory.md``).
    """
    shape, tp = inputs.shape, inputs.tp
    hidden = shape.hidden or USUAL_HIDDEN
    rows = 8.0 * hidden
    # A mixture keeps its wide tensors in a workspace of its own; router and shared expert are left.
    mlp = 11.0 * hidden if shape.is_moe else 8.0 * (shape.intermediate or 3.25 * hidden) / tp
    if inputs.model_runner == "V2" or inputs.release < (0, 21, 0):
        mlp *= 0.75  # without the extra copies that V1 keeps today
    low, mid, high = 0.6 * mlp, mlp, 1.5 * mlp
    for group in inputs.groups:
        extra = _state_token_bytes(group, tp)
        low, mid, high = max(low, extra.low), max(mid, extra.mid), max(high, extra.high)
    scale, latent = inputs.batch / GIB, _latent_workspace_gib(inputs)
    return Interval(max((0.6 * rows + low) * scale, latent.low), max((rows + mid) * scale, latent.mid),
                    max((1.5 * rows + high) * scale, latent.high))


def _state_token_bytes(group: LayerGroup, tp: int) -> Interval:
    """Bytes a token that the projections of one state layer keep, by channel of its inner width.

    H200, 0.26.0: GDN 17 (MoE) and 23 (dense), Mamba2 13; KDA at most 35, hidden behind the latents' workspace.
    """
    if group.state is None:
        return Interval(0.0, 0.0, 0.0)
    inner = group.state.v_heads * group.state.v_dim / tp
    low, mid, high = {"gdn": (10, 20, 40), "kda": (6, 15, 40)}.get(group.kind, (4, 13, 26))
    return Interval(low * inner, mid * inner, high * inner)


def latent_rows(inputs: MemoryInputs) -> int:
    """Tokens of earlier context that MLA layers expand at a time: 65,536 at most, and fewer only for short windows,
    but one cache block for each sequence at least (``mla_attention.py``). A hybrid's block is long: 1,888 tokens on
    Kimi-Linear, so 1,024 sequences made it 29.5 GiB."""
    block = cache_layout(inputs).block_size
    wanted = max(8 * inputs.max_model_len, 4 * inputs.sequences * block)
    return max(min(wanted, 65_536), inputs.sequences * block)


def _latent_workspace_gib(inputs: MemoryInputs) -> Interval:
    """Expanded keys and values of MLA layers in the profile: rows * heads * (128 + 128) * 2 bytes, met within a
    megabyte at seven counts of sequences, and the layer's own rows, 9 to 14 bytes a token and hidden unit."""
    indexed = next((group for group in inputs.groups if group.kind in ("indexer", "compressed") and (group.ratio or group.kind == "indexer")), None)
    if indexed is not None:
        # Sparse attention expands nothing; its indexer gathers keys of 40 windows, 132 bytes each, beside 512 MiB of scores.
        gathered = 40 * inputs.max_model_len * 132 / max(1, indexed.ratio) / GIB
        return Interval(0.25, gathered + 0.5, 1.5 * gathered + 2.0)
    if not inputs.is_mla or inputs.release < (0, 21, 0):
        return Interval(0.0, 0.0, 0.0)
    heads, hidden = inputs.shape.heads or USUAL_LATENT_HEADS, inputs.shape.hidden or USUAL_HIDDEN
    expanded = latent_rows(inputs) * heads / inputs.tp * 512 / GIB
    rows = inputs.batch * hidden / GIB
    return Interval(expanded + 5 * rows, expanded + 12 * rows, 1.1 * expanded + 24 * rows)


def _expert_workspace_gib(inputs: MemoryInputs) -> Interval:
    """Two buffers that the experts of a mixture share over all layers and keep: tokens * experts a token * the wider
    of hidden and expert width * 2 bytes. Within 3 MB on three mixtures with the Triton kernels, 0.09 GiB
    too much on Nemotron, whose experts have no gate. Marlin's second buffer is only as wide as an expert (source)."""
    shape, tp = inputs.shape, inputs.tp
    if not shape.is_moe:
        return Interval(0.0, 0.0, 0.0)
    hidden = shape.hidden or USUAL_HIDDEN
    width = (shape.moe_intermediate or hidden // 2) / tp
    each = inputs.batch * (shape.experts_per_token or 8) * 2 / GIB
    second = width if inputs.marlin_moe else max(hidden, width)
    size = each * (second + max(hidden, 2 * width))
    return Interval(0.4 * size, size, 1.5 * size)


def _compile_gib(inputs: MemoryInputs) -> Interval:
    """Peak of torch.compile in a first start: the compiler times kernels on a copy of the embedding table.

    Table plus two hidden rows a token was met within 0.04 GiB in five first starts of dense models, both runners, 1.1
    to 2.6 GiB; drafts keep eight rows (within 0.1). On mixtures it stayed below the other parts. A second start loads
    the result. The plan is for the first start unless the caller says otherwise.
    """
    if inputs.enforce_eager or inputs.warm_start or inputs.release < (0, 21, 0):
        return Interval(0.0, 0.0, 0.0)
    hidden = inputs.shape.hidden or USUAL_HIDDEN
    table = (inputs.shape.vocab or USUAL_VOCAB) * hidden * inputs.shape.dtype_bytes / inputs.tp / GIB
    rows = inputs.batch * hidden * (16 if inputs.spec_tokens else 4) / GIB
    return Interval(0.0, table + rows, 1.2 * (table + rows))


def cold_start_gib(inputs: MemoryInputs) -> float:
    """How much more activation a first start needs than one that finds its compiled code."""
    return _activation(inputs).mid - _activation(replace(inputs, warm_start=True)).mid


def encoder_runs(inputs: MemoryInputs) -> bool:
    """True when a vision or audio encoder is loaded and profiled."""
    return inputs.shape.is_multimodal and not inputs.language_model_only


def _non_torch(inputs: MemoryInputs) -> Interval:
    """CUDA libraries and NCCL: 0.13-0.25 GiB on one rank, 0.55-0.74 on two or more; 2.2 on a GB10, whose memory
    is the host's too."""
    if any(name in inputs.card.name.lower() for name in SHARED_MEMORY):
        return Interval(0.2, 1.2, 3.0)
    if inputs.tp * inputs.pp == 1:
        return Interval(0.1, 0.23, 0.5)
    # Without the custom all-reduce, NCCL keeps more buffers: 37,000 tokens of 10 KB on two A40.
    more = 0.0 if inputs.custom_all_reduce else 0.35
    return Interval(0.3, 0.6 + more, 1.4 + more)


def _graph_share(inputs: MemoryInputs) -> float:
    """Captured sizes as a share of the usual most: sizes go up to twice the sequences, 512 at most."""
    if inputs.cudagraph_sizes is not None:
        return inputs.cudagraph_sizes / GRAPH_SIZES_FULL
    top = min(2 * inputs.sequences * (1 + inputs.spec_tokens), 512)
    sizes = 3 + top / 8 if top <= 256 else 35 + (top - 256) / 16
    return min(1.0, sizes / GRAPH_SIZES_FULL)


def _graphs_charged(inputs: MemoryInputs) -> Interval:
    """The estimate that the profile takes from the cache: V1 from 0.20 on, V2 from 0.29 on (no record of
    that; V1's law is taken). With drafts on a hybrid it may be negative (-0.81 and -0.90 seen), so the low end goes below zero."""
    law = releases.V2_CHARGES_GRAPHS if inputs.model_runner == "V2" else releases.V1_CHARGES_GRAPHS
    if inputs.enforce_eager or not law.at(inputs.release):
        return Interval(0.0, 0.0, 0.0)
    mid = 0.1 + 0.53 * _graph_share(inputs)
    low = -0.9 if inputs.is_hybrid and inputs.spec_tokens else 0.1
    return Interval(min(low, 0.5 * mid), mid, mid + 0.7)


def _graphs_used(inputs: MemoryInputs) -> Interval:
    """What capture takes: 0.80-1.04 GiB (V1) and 1.00-1.20 (V2) for 51 sizes, 0.23-0.41 for 19, 0.21 for 11."""
    if inputs.enforce_eager:
        return Interval(0.0, 0.0, 0.0)
    share = _graph_share(inputs)
    mid = 0.05 + 0.9 * share
    return Interval(0.1 * share, mid, mid + 0.6)


def _outside(inputs: MemoryInputs, charged: Interval, used: Interval) -> Interval:
    """Held beyond the requested share once serving, context left out: capture above its estimate, the latents that
    MLA layers gather (allocated after the cache is sized), and growth.

    H200, context of 0.51 included: V1 0.82-1.08 with 51 sizes and 0.43-0.99 with 19, V2 1.76-1.82, eager 0.43. Long
    prompts, two at once too, then added 0.00-0.30. Marlin MoE kernels on 24 GB cards add up to 1 GiB, and 2.1-2.8 GiB
    in all were seen there.
    """
    captured = max(0.0, used.mid - max(0.0, charged.mid))
    marlin = 0.9 if inputs.marlin_moe else 0.0
    mid = captured + (0.2 if not inputs.enforce_eager else 0.0) + marlin + _gathered_latents_gib(inputs)
    return Interval(0.5 * captured, mid, mid + 0.8 + marlin)


def _gathered_latents_gib(inputs: MemoryInputs) -> float:
    """One row of latent for each token that MLA layers expand at a time."""
    width = max((g.kv_lora_rank + g.rope_dim for g in inputs.groups if g.kind == "mla"), default=0)
    return latent_rows(inputs) * width * 2 / GIB if width else 0.0
