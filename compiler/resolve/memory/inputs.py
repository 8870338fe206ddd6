"""What the memory planner needs to know: plain values, no specs, no units but bytes and tokens.

Every field that has a default may be left out; the planner then widens its intervals where that matters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from compiler.resolve.memory import releases
from compiler.resolve.memory.releases import Release, parsed_release

LayerKind = Literal["full", "sliding", "chunked", "mla", "mla_ds", "compressed", "indexer", "ring", "gdn", "mamba2", "kda", "conv"]
MambaMode = Literal["none", "align", "all"]
Runner = Literal["V1", "V2"]

STATE_KINDS = frozenset({"gdn", "mamba2", "kda", "conv"})
MLA_KINDS = frozenset({"mla", "mla_ds"})
FULL_KINDS = MLA_KINDS | {"full", "indexer"}
MIB = 1 << 20
LARGE_BATCH = 8192


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Memory of one GPU.

    Give ``total_bytes`` (what CUDA reports) where it is known, else ``vram_mib`` (what nvidia-smi shows).
    ``already_used_bytes`` is what others hold before the engine starts: a desktop, the WSL2 tax.
    ``name`` and ``is_cpu`` only serve the engine's defaults, which differ on an A100 and on the CPU build; ``capability``
    (8, 9) tells which kernels it has.
    """

    total_bytes: int | None = None
    vram_mib: int | None = None
    already_used_bytes: int = 0
    name: str = ""
    is_cpu: bool = False
    capability: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse a GPU of unknown or impossible size with ``ValueError``."""
        if self.total_bytes is None and self.vram_mib is None:
            raise ValueError("CardMemory needs total_bytes or vram_mib")
        sizes = [size for size in (self.total_bytes, self.vram_mib) if size is not None]
        if min(sizes) <= 0 or self.already_used_bytes < 0:
            raise ValueError("CardMemory sizes must be positive")

    @property
    def bytes(self) -> int:
        """What CUDA reports where it is known, else what nvidia-smi shows."""
        return self.total_bytes or (self.vram_mib or 0) * MIB


@dataclass(frozen=True, slots=True)
class StateDims:
    """Sizes of one state layer (GDN, Mamba2, KDA or a short convolution), before tensor parallelism.

    ``v_heads`` x ``v_dim`` is the inner width. ``k_dim`` is the key width of a GDN or KDA head and the state
    size (``d_state``) of a Mamba2 head, 0 for a convolution alone; ``groups`` (Mamba2) and ``chunk`` (mode ``all``) are
    Mamba2's. ``is_replicated``: every rank keeps the whole of it.
    """

    v_heads: int
    v_dim: int
    k_dim: int
    k_heads: int = 0
    groups: int = 1
    conv_kernel: int = 4
    chunk: int = 256
    ssm_dtype: str = "float32"
    is_replicated: bool = False


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """``layers`` layers of one kind and one shape, counted over the whole model.

    Attention kinds read ``kv_heads``, ``head_dim_k``, ``head_dim_v`` (same as K when 0) and, if sliding or
    chunked, ``window``; MLA kinds read ``kv_lora_rank`` and ``rope_dim``; state kinds read ``state``. An ``indexer`` keeps one
    key of ``head_dim_k`` for every ``ratio`` tokens, beside the attention of its layers. A ``compressed`` layer (DeepSeek-V4) keeps a
    window of latents of ``head_dim_k`` and, where ``ratio`` is not 0, one latent for every ``ratio`` tokens, with keys of ``index_dim``
    where it has an indexer; ratios 1 and 2 are those of V4.1. A ``ring`` is what these keep of a group that is not full yet.
    ``kv_dtype`` overrides the cache dtype for these layers, as a list of skipped layers does.
    """

    kind: LayerKind
    layers: int
    kv_heads: int = 0
    head_dim_k: int = 0
    head_dim_v: int = 0
    window: int = 0
    kv_lora_rank: int = 0
    rope_dim: int = 0
    state: StateDims | None = None
    kv_dtype: str | None = None
    ratio: int = 0
    index_dim: int = 0

    def __post_init__(self) -> None:
        """Refuse a group that lacks the sizes of its kind with ``ValueError``."""
        if self.layers <= 0:
            raise ValueError(f"a {self.kind} group needs at least one layer")
        if self.kind in STATE_KINDS:
            known = self.state is not None
        elif self.kind in MLA_KINDS:
            known = self.kv_lora_rank > 0
        elif self.kind in ("compressed", "indexer", "ring"):
            known = self.head_dim_k > 0
        else:
            known = self.kv_heads > 0 and self.head_dim_k > 0
        if not known or (self.kind in ("sliding", "chunked", "compressed") and self.window <= 0):
            raise ValueError(f"a {self.kind} group lacks the sizes of its kind")


@dataclass(frozen=True, slots=True)
class MeasuredKV:
    """Cache cost of a family that has no closed form, measured on one rank.

    A request of L tokens costs ``fixed_bytes + bytes_per_token * L``, L rounded up to ``block`` tokens.
    ``admission_factor`` is how much more the engine's start-up check asks for than it then allocates.
    """

    bytes_per_token: float
    fixed_bytes: int = 0
    block: int = 16
    admission_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Speculation:
    """A draft: ``tokens`` proposed each step, its own attention layers, and its weights over all ranks.

    ``groups`` stays empty when the draft shares the target's cache (Gemma 4 assistants, n-grams).
    ``weights_bytes`` counts only what the target's ``weights_bytes`` does not hold yet.
    """

    method: str
    tokens: int
    groups: tuple[LayerGroup, ...] = ()
    weights_bytes: int = 0


def own_draft(groups: tuple[LayerGroup, ...], layers: int) -> tuple[LayerGroup, ...]:
    """What ``layers`` layers of the model's own MTP head keep: the first kind of attention with its indexer; DeepSeek-V4's keep a
    window alone. Empty without attention."""
    first = next((group for group in groups if group.kind in ("full", "mla", "mla_ds", "compressed")), None)
    if first is None:
        return ()
    if first.kind == "compressed":
        return (replace(first, layers=layers, ratio=0, index_dim=0),)
    return tuple(replace(group, layers=layers) for group in (first, next((g for g in groups if g.kind == "indexer"), None)) if group)


@dataclass(frozen=True, slots=True)
class Lora:
    """Slots for ``adapters`` LoRA adapters of up to ``rank``; ``is_sharded`` splits both of their matrices over ranks."""

    adapters: int
    rank: int
    is_sharded: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of the checkpoint as loaded on GPUs, summed over one model copy.

    ``replicated`` is not split by tensor parallelism, ``experts`` is what expert parallelism spreads, ``vision``
    is the encoder, ``offloaded`` stays in host memory; all four are shares of ``total``.
    ``per_rank`` replaces the whole computation when the engine printed it ("Model loading took ...").
    """

    total: int = 0
    replicated: int = 0
    experts: int = 0
    vision: int = 0
    offloaded: int = 0
    per_rank: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What drives the memory outside weights and cache; 0 means not known."""

    hidden: int = 0
    intermediate: int = 0
    vocab: int = 0
    heads: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate: int = 0
    is_moe: bool = False
    is_multimodal: bool = False
    dtype_bytes: int = 2
    layers: int = 0


@dataclass(frozen=True, slots=True)
class MemoryInputs:
    """Everything that ``memory_plan`` reads. ``None`` takes the engine release's own default.

    ``full_cudagraphs`` is false for eager and piecewise-only modes; ``cudagraph_sizes`` counts captured sizes (51
    by default on a large card, 83 for gpt-oss). ``dcp`` is the decode context-parallel size. ``cpu_offload_bytes`` of the
    weights of each rank stay in host memory.
    """

    engine_release: str
    card: CardMemory
    geometry: tuple[LayerGroup, ...] | MeasuredKV
    weights: Weights
    max_model_len: int
    shape: ModelShape = ModelShape()
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    kv_dtype: str = "auto"
    block_size: int | None = None
    mamba_block_size: int | None = None
    mamba_cache_mode: MambaMode | None = None
    mamba_cache_dtype: str | None = None
    prefix_caching: bool | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    enforce_eager: bool = False
    full_cudagraphs: bool = True
    cudagraph_sizes: int | None = None
    async_scheduling: bool = True
    speculation: Speculation | None = None
    language_model_only: bool = False
    custom_all_reduce: bool = True
    hybrid_manager: bool = True
    runner: Runner | None = None
    warm_start: bool = False
    marlin_moe: bool = False
    cpu_offload_bytes: int = 0
    lora: Lora | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no engine takes with ``ValueError``."""
        parsed_release(self.engine_release)
        counts = (self.tp, self.pp, self.dp, self.dcp, self.max_model_len)
        optional = (self.block_size, self.mamba_block_size, self.max_num_batched_tokens, self.max_num_seqs,
                    self.kv_cache_memory_bytes, self.num_gpu_blocks_override, self.cudagraph_sizes)
        if min(counts) < 1 or any(value is not None and value < 1 for value in optional):
            raise ValueError("parallel sizes, lengths and counts must be at least 1")
        if not 0.0 < self.utilization <= 1.0:
            raise ValueError("gpu_memory_utilization lies in (0, 1]")
        if not isinstance(self.geometry, MeasuredKV) and not self.geometry:
            raise ValueError("geometry needs at least one group of layers")

    @property
    def release(self) -> Release:
        """The engine release as numbers that compare."""
        return parsed_release(self.engine_release)

    @property
    def utilization(self) -> float:
        """Share of the card that the engine takes: the asked one, else the release's default."""
        if self.gpu_memory_utilization is not None:
            return self.gpu_memory_utilization
        return releases.DEFAULT_UTILIZATION.at(self.release)

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """Target and draft layers together; empty for measured geometry."""
        if isinstance(self.geometry, MeasuredKV):
            return ()
        groups = self.geometry + (self.speculation.groups if self.speculation else ())
        return tuple(self._served(group) if group.kind == "mla_ds" else group for group in groups)

    def _served(self, group: LayerGroup) -> LayerGroup:
        """Sparse latents as release and kernel keep them: packed where fp8 is asked for, but plain on compute capability 10.x; unasked
        packed before 0.12 and on 12.x, else 16 bits (``models/config.py``, ``platforms/cuda.py``, ``_canonicalize_sparse_mla_kv_cache_dtype``)."""
        family = self.card.capability[0] if self.card.capability and releases.SPARSE_BY_CARD.at(self.release) else 0
        is_plain = family == 10 or (self.kv_dtype == "auto" and family != 12 and not releases.SPARSE_ALWAYS_PACKED.at(self.release))
        return replace(group, kind="mla") if is_plain else group

    @property
    def is_hybrid(self) -> bool:
        """True when some layers keep a state instead of a cache."""
        return any(group.kind in STATE_KINDS for group in self.groups)

    @property
    def is_mla(self) -> bool:
        """True when the attention layers keep a latent."""
        return any(group.kind in MLA_KINDS for group in self.groups)

    @property
    def is_large_card(self) -> bool:
        """The engine's own test for its wider default batch: 70 GiB or more, and no A100 (on late releases no GB10)."""
        name = self.card.name.lower()
        if "gb10" in name and releases.GB10_IS_SMALL.at(self.release):
            return False
        return self.card.bytes >= 70 << 30 and ("a100" not in name or self._is_largest_card)

    @property
    def _is_largest_card(self) -> bool:
        """160 GiB or more, where the release asks for that before it looks at the name."""
        return self.card.bytes >= 160 << 30 and releases.LARGEST_BATCH.at(self.release) > LARGE_BATCH

    @property
    def batch(self) -> int:
        """Tokens of one profiling batch: the asked value, else 8192 on a large card (16,384 from 160 GiB on, since 0.28) and 2048
        elsewhere (a rank, on a CPU). Before 0.8
        (the V0 engine) prompts were not chunked by default, so a batch was as long as the window."""
        if self.max_num_batched_tokens:
            return self.max_num_batched_tokens
        if self.release < (0, 8, 0):
            return max(2048, self.max_model_len)
        if self.card.is_cpu:
            return 2048 * self.tp * self.pp
        if self._is_largest_card:
            return releases.LARGEST_BATCH.at(self.release)
        return LARGE_BATCH if self.is_large_card else 2048

    @property
    def sequences(self) -> int:
        """Sequences at once: the asked value, else 1024 on a large card, 128 a rank on a CPU and 256 elsewhere, but no more
        than the batch has tokens (``arg_utils.py: get_batch_defaults``)."""
        usual = 128 * self.tp * self.pp if self.card.is_cpu else 1024 if self.is_large_card else 256
        return self.max_num_seqs or min(usual, self.batch)

    @property
    def spec_tokens(self) -> int:
        """Draft tokens of a step, 0 without speculation."""
        return self.speculation.tokens if self.speculation else 0

    @property
    def state_mode(self) -> MambaMode:
        """How states are kept. Without prefix caching, hybrids' default, one state a request, whatever mode is asked for; with it,
        ``all`` for Mamba2 where the release knows it and ``align`` for the rest (``models/config.py: MambaModelConfig``)."""
        if self.prefix_caching is False:
            return "none"
        if not releases.STATE_MODE_ALL.at(self.release):
            known: MambaMode | None = "align" if self.mamba_cache_mode == "all" else self.mamba_cache_mode
            return known or ("align" if self.prefix_caching else "none")
        if self.mamba_cache_mode is not None:
            return self.mamba_cache_mode
        if not self.prefix_caching:
            return "none"
        return "all" if any(group.kind == "mamba2" for group in self.groups) else "align"

    @property
    def model_runner(self) -> Runner:
        """V2 for dense models from 0.25 on, for MLA models and DSpark drafts from 0.26, for all from 0.29; V1 elsewhere."""
        if self.runner is not None:
            return self.runner
        default = releases.DEFAULT_RUNNER.at(self.release)
        if default == "all" or (self.speculation is not None and self.speculation.method == "dspark"):
            return "V2"
        if default == "old" or self.is_hybrid:
            return "V1"
        return "V2" if not self.shape.is_moe or (self.is_mla and default == "dense-and-latent") else "V1"

