"""The planner's cache geometry against the release's own functions: the same layers, the same bytes, every figure equal.

The shapes are those of the recorded start-ups, in ways in which nobody has logged them: more ranks, stages, drafts, cache types.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compiler.resolve.memory import CardMemory, LayerGroup, MemoryInputs, Speculation, StateDims, Weights, cache_layout
from compiler.resolve.memory.blocks import exports_gdn_checkpoints
from tests.integration.parts import ENGINE_TOOLS, engine_absent, engine_parts, json_lines

pytestmark = pytest.mark.real_engine

RELEASES = ("0.26.0", "0.27.1", "0.33.0")
SECONDS = 300
POOL = 20_000_000_003
ADA, HOPPER = (8, 9), (9, 0)
DENSE = (LayerGroup("full", 36, 8, 128),)
WIDE_VALUES = (LayerGroup("full", 30, 4, 192, head_dim_v=128),)
GPT_OSS = (LayerGroup("full", 18, 8, 64), LayerGroup("sliding", 18, 8, 64, window=128))
GEMMA = (LayerGroup("full", 10, 4, 512), LayerGroup("sliding", 50, 16, 256, window=1024))
CHUNKED = (LayerGroup("full", 12, 8, 128), LayerGroup("chunked", 36, 8, 128, window=8192))
LATENT = (LayerGroup("mla", 61, kv_lora_rank=512, rope_dim=64),)
GDN_27B = (LayerGroup("full", 16, 4, 256), LayerGroup("gdn", 48, state=StateDims(48, 128, 128, 16)))
GDN_35B = (LayerGroup("full", 10, 2, 256), LayerGroup("gdn", 30, state=StateDims(32, 128, 128, 16)))
NEXT_80B = (LayerGroup("full", 12, 2, 256), LayerGroup("gdn", 36, state=StateDims(32, 128, 128, 16, ssm_dtype="float16")))
NEMOTRON = (LayerGroup("full", 6, 2, 128), LayerGroup("mamba2", 23, state=StateDims(64, 64, 128, groups=8, chunk=128)))
KIMI = (LayerGroup("mla", 7, kv_lora_rank=512, rope_dim=64), LayerGroup("kda", 20, state=StateDims(32, 128, 128, 32)))
V4 = (
    LayerGroup("compressed", 2, head_dim_k=512, window=128), LayerGroup("compressed", 21, head_dim_k=512, window=128, ratio=4, index_dim=128),
    LayerGroup("compressed", 20, head_dim_k=512, window=128, ratio=128),
)  # fmt: skip
SPARSE = (LayerGroup("mla", 61, kv_lora_rank=512, rope_dim=64), LayerGroup("indexer", 61, head_dim_k=128))
# Indexers that pool tokens; what their open pools need is a kind of cache that releases before 0.28 do not have.
FLASH_NEXT = (
    LayerGroup("full", 12, 2, 256), LayerGroup("gdn", 36, state=StateDims(48, 128, 128, 16)), LayerGroup("indexer", 12, head_dim_k=128, ratio=4, kv_dtype="bf16"),
    LayerGroup("conv", 1, state=StateDims(1, 10_240, 0, conv_kernel=10, is_replicated=True)),
)  # fmt: skip
GLM_NEXT = (
    LayerGroup("mla", 11, kv_lora_rank=512), LayerGroup("kda", 34, state=StateDims(64, 128, 128, 64)), LayerGroup("indexer", 11, head_dim_k=128, ratio=4),
)  # fmt: skip
MODELS = {
    "dense": DENSE, "wide-values": WIDE_VALUES, "gpt-oss": GPT_OSS, "gemma": GEMMA, "chunked": CHUNKED, "latent": LATENT, "gdn-27b": GDN_27B,
    "gdn-35b": GDN_35B, "next-80b": NEXT_80B, "nemotron": NEMOTRON, "kimi": KIMI, "v4": V4, "sparse": SPARSE,
    "flash-next": FLASH_NEXT, "glm-next": GLM_NEXT,
}  # fmt: skip
# Layers of a draft: the target's own first kind, or another model's.
DRAFTS = {"wide": LayerGroup("full", 5, 8, 128), "narrow": LayerGroup("full", 1, 2, 64), "sliding": LayerGroup("sliding", 4, 8, 128, window=2048)}
LATENTS = ("latent", "kimi", "v4", "sparse", "flash-next", "glm-next")
POOLED = ("flash-next", "glm-next")
HYBRIDS = ("gdn-27b", "gdn-35b", "next-80b", "nemotron", "kimi")


@dataclasses.dataclass(frozen=True)
class Ask:
    """One question: a model's layers and how they are served."""

    model: str
    dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    mode: str = "none"
    drafts: int = 0
    batch: int = 2048
    window: int = 131_072
    capability: tuple[int, int] = ADA
    draft: str = "own"

    @property
    def name(self) -> str:
        """What the question is called in messages."""
        return "-".join(str(value) for value in dataclasses.astuple(self))


def _asks() -> list[Ask]:
    every = [Ask(model, tp=tp, pp=pp) for model in MODELS for tp in (1, 2, 4) for pp in (1, 2, 3)]
    every += [Ask(model, dtype, tp=2) for model in MODELS for dtype in ("fp8", "int8_per_token_head", "nvfp4") if model not in LATENTS]
    every += [Ask(model, "fp8", tp=tp) for model in ("latent", "kimi") for tp in (1, 8)]
    every += [Ask(model, dtype, mode="align") for model in ("gdn-27b", "gdn-35b") for dtype in ("turboquant_k3v4_nc", "turboquant_4bit_nc", "turboquant_3bit_nc", "turboquant_k8v4")]
    every += [Ask(model, "fp8", tp, 1, mode, drafts, capability=c) for model in HYBRIDS for tp in (1, 2) for mode in ("none", "align", "all") for drafts in (0, 3) for c in (ADA, HOPPER)]
    every += [Ask(model, pp=2, mode="align", drafts=drafts) for model in ("gdn-27b", "gdn-35b") for drafts in (0, 2)]
    every += [Ask(model, tp=tp, mode=mode, drafts=4, draft=draft) for model, mode in (("dense", "none"), ("gdn-27b", "align"), ("gdn-35b", "none")) for tp in (1, 2) for draft in DRAFTS]
    every += [Ask(model, tp=tp, drafts=drafts, batch=batch, window=window) for model in ("v4", "sparse") for tp in (1, 8) for drafts in (0, 1, 3) for batch in (2048, 8192) for window in (4096, 1_048_576)]
    every += [Ask(model, tp=tp, mode=mode, drafts=drafts, batch=8192, window=window) for model in POOLED for tp in (1, 2) for mode in ("none", "align") for drafts in (0, 3) for window in (16_384, 262_144)]
    return every + [Ask(model, batch=batch, window=window) for model in ("gpt-oss", "gemma", "chunked") for batch in (512, 32_768) for window in (4096, 262_144)]


# Mode all is Mamba2's; no release packs keys and values of unlike widths as nvfp4.
ASKS = [ask for ask in dict.fromkeys(_asks()) if (ask.mode != "all" or ask.model == "nemotron") and (ask.model, ask.dtype) != ("wide-values", "nvfp4")]


def _inputs(ask: Ask, release: str) -> MemoryInputs:
    layers = MODELS[ask.model]
    drafted = DRAFTS.get(ask.draft) or dataclasses.replace(layers[0], layers=1)
    draft = Speculation("mtp", ask.drafts, (drafted,)) if ask.drafts else None
    mode: Any = ask.mode
    return MemoryInputs(
        release, CardMemory(vram_mib=49_140, capability=ask.capability), layers, Weights(), ask.window, tp=ask.tp, pp=ask.pp, kv_dtype=ask.dtype,
        mamba_cache_mode=mode, prefix_caching=mode != "none", max_num_batched_tokens=ask.batch, max_num_seqs=8, speculation=draft,
    )  # fmt: skip


def _job(ask: Ask, inputs: MemoryInputs) -> dict[str, Any]:
    kinds = {group.kind for group in inputs.groups}
    checkpoint = inputs.state_mode == "align" and inputs.release >= (0, 33, 0) and ("mamba2" in kinds or exports_gdn_checkpoints(inputs))
    layers = [{k: v for k, v in dataclasses.asdict(g).items() if v is not None} for g in MODELS[ask.model]]
    drafted = [{k: v for k, v in dataclasses.asdict(g).items() if v is not None} for g in (inputs.speculation.groups if inputs.speculation else ())]
    return {
        "id": ask.name, "layers": layers, "drafted": drafted, "dtype": ask.dtype, "tp": ask.tp, "pp": ask.pp, "mode": inputs.state_mode, "drafts": ask.drafts,
        "batch": ask.batch, "window": ask.window, "bytes": POOL, "v2": inputs.model_runner == "V2", "checkpoint": int(checkpoint),
    }  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_the_planner_lays_out_the_cache_as_the_release_does(release: str) -> None:
    parts = engine_parts(release)
    if parts is None:
        pytest.skip(engine_absent(release))
    known = [ask for ask in ASKS if ask.model not in POOLED or release == RELEASES[-1]]
    asked = {ask.name: _inputs(ask, release) for ask in known}
    jobs = [_job(ask, asked[ask.name]) for ask in known]
    answers = json_lines([parts.python, ENGINE_TOOLS / "ask_cache.py"], jobs, parts.env(), SECONDS)
    unlike = {}
    for name, said in answers.items():
        if differs := _differences(asked[name], said):
            unlike[name] = differs
    assert not unlike, f"{len(unlike)} of {len(answers)}: {unlike}"


def _differences(inputs: MemoryInputs, said: dict[str, Any]) -> dict[str, Any]:
    """What the engine says and the planner does not, by figure: (engine's, planner's)."""
    if "error" in said:
        return {"error": said["error"]}
    layout, window = cache_layout(inputs), inputs.max_model_len
    blocks = layout.blocks(POOL)
    ours = {
        "blocks": blocks, "block_bytes": layout.bytes_per_block, "needed": layout.needed_bytes(window), "longest": min(window, layout.longest(POOL)),
        "concurrency": layout.concurrency(blocks, window), "block": layout.block_size,
    }  # fmt: skip
    differing = {figure: (said[figure], value) for figure, value in ours.items() if said[figure] != value}
    # A product of floats may be cut one token lower than the exact quotient.
    return differing | ({} if abs(said["tokens"] - layout.tokens(blocks, window)) <= 1 else {"tokens": (said["tokens"], layout.tokens(blocks, window))})
