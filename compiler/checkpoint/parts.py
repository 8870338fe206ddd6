"""Bytes by part of the network and by stored format, counted from headers. Sizes are bytes, counts are weights."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from compiler.checkpoint.quantized import Quantized
from compiler.checkpoint.tensors import Tensor

PARTS = (
    "routed-experts",
    "shared-experts",
    "attention",
    "linear-attention",
    "mamba",
    "dense-mlp",
    "lm-head",
    "embeddings",
    "vision",
    "mtp",
    "rest",
)
_PATTERNS = (
    ("mtp", re.compile(r"(^|\.)(mtp|nextn)(\.|_)|(^|\.)eh_proj\.")),
    (
        "vision",
        re.compile(r"(^|\.)(visual|vision(_tower|_model|_encoder|_embed_tokens)?|multi_modal_projector|mm_projector|embed_vision)\."),
    ),
    ("routed-experts", re.compile(r"\.experts\.|\.experts_")),
    ("shared-experts", re.compile(r"\.shared_expert|\.shared_mlp\.")),
    ("lm-head", re.compile(r"(^|\.)lm_head\.")),
    ("embeddings", re.compile(r"(^|\.)(embed_tokens|embeddings|word_embeddings|tok_embeddings|wte)\.")),
    ("linear-attention", re.compile(r"\.linear_attn\.")),
    ("attention", re.compile(r"\.(self_attn|attn|attention)\.|\.mixer\.[qkvo]_proj\.")),
    ("mamba", re.compile(r"\.mamba\.|\.mixer\.(in_proj|out_proj|conv1d|norm|A_log|D|dt_bias)(\.|$)")),
    (
        "dense-mlp",
        re.compile(r"\.(mlp|feed_forward)\.(gate_proj|up_proj|down_proj|gate_up_proj|fc1|fc2|w1|w2|w3)\.|\.mixer\.(up_proj|down_proj)\."),
    ),
)
_LAYER = re.compile(r"(?:^|\.)layers\.([0-9]{1,4})\.")
# What goes with weights and is none: scales, zero points, shapes and tables of the quantization.
_BESIDE = re.compile(r"(scales?|scale_2|scale_inv|zero_point|q?zeros|g_idx|weight_shape|absmax|quant_map|quant_state.*)$")
_PLAIN = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F8_E4M3": "fp8", "F8_E5M2": "fp8", "I8": "int8", "F4": "nvfp4"}
_PACKED = {"nvfp4": "nvfp4", "mxfp4": "mxfp4", "awq-int4": "int4", "gptq-int4": "int4", "bitsandbytes-nf4": "int4", "int8": "int8"}
_MIXED = {"int8": 1, "int4": 2, "nvfp4": 2, "mxfp4": 2}


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One part: its bytes once loaded, its weights, and the format that most of them have."""

    name: str
    bytes: int
    weights: int
    format: str
    tensors: int


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """All parts by name. `narrowed` are the bytes that loading saves, because float32 weights become the checkpoint's own type."""

    parts: Mapping[str, Part]
    narrowed: int
    doubled_head: int
    has_input_scales: bool

    def of(self, *names: str) -> int:
        """Bytes of these parts together."""
        return sum(self.parts[name].bytes for name in names if name in self.parts)

    @property
    def total(self) -> int:
        """Bytes of everything but the draft head: what is loaded."""
        return sum(part.bytes for part in self.parts.values() if part.name != "mtp")

    @property
    def weights(self) -> int:
        """Weights of everything but the draft head, however they are packed."""
        return sum(part.weights for part in self.parts.values() if part.name != "mtp")

    @property
    def text_weights(self) -> int:
        """Weights of the text model alone."""
        return sum(part.weights for part in self.parts.values() if part.name not in ("mtp", "vision"))


def part_of(name: str, layers: int) -> str:
    """The part that a tensor belongs to; layers behind the last one are a draft head."""
    kind = next((part for part, pattern in _PATTERNS if pattern.search(name)), "rest")
    layer = _LAYER.search(name)
    return "mtp" if layer and kind not in ("vision", "mtp") and int(layer[1]) >= layers else kind


def counted(tensors: Iterable[Tensor], quantized: Quantized, layers: int, *, tied: bool, dtype: str) -> Counted:
    """Every tensor in its part. An output head that is tied to the embeddings and stored all the same is left out: the engine skips it."""
    sizes: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    formats: defaultdict[str, Counter[str]] = defaultdict(Counter)
    weights: Counter[str] = Counter()
    narrowed = doubled = 0
    inputs = False
    for tensor in tensors:
        part = part_of(tensor.name, layers)
        if part == "lm-head" and tied:
            doubled += tensor.bytes
            continue
        size = tensor.bytes
        if tensor.dtype == "F32" and len(tensor.shape) > 1 and dtype in ("bfloat16", "float16") and not _BESIDE.search(tensor.name):
            size //= 2
            narrowed += size
        sizes[part] += size
        numbers[part] += 1
        inputs = inputs or tensor.name.endswith(("input_scale", "input_global_scale"))
        if not _BESIDE.search(tensor.name):
            stored = _format(tensor, quantized)
            count = tensor.elements * _held(tensor, stored, quantized)
            weights[part] += count
            formats[part][stored] += count
    parts = {
        p: Part(p, sizes[p], weights[p], formats[p].most_common(1)[0][0] if formats[p] else "bf16", numbers[p]) for p in PARTS if sizes[p]
    }
    return Counted(parts, narrowed, doubled, inputs)


def _format(tensor: Tensor, quantized: Quantized) -> str:
    if tensor.dtype in _PLAIN and tensor.dtype != "I8":
        return _PLAIN[tensor.dtype]
    if tensor.dtype in ("U8", "I8", "I32", "U32", "I64"):
        return _PACKED.get(quantized.scheme, "int8")
    return "bf16"


def _held(tensor: Tensor, stored: str, quantized: Quantized) -> int:
    """Weights in one stored element: packed words hold several."""
    if tensor.dtype in ("I32", "U32", "I64"):
        return (64 if tensor.dtype == "I64" else 32) // max(1, quantized.bits)
    return _MIXED.get(stored, 1) if tensor.dtype in ("U8", "I8") else 1
