"""What config.json says of the network as a whole: widths, experts, window, draft head, and how many parameters all this makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from compiler.checkpoint.families import FAMILIES, Family, family_of
from compiler.checkpoint.json_file import Fields, JsonFile
from compiler.checkpoint.layers import Group, hybrid_pattern, layer_groups
from compiler.diagnostics import Diagnostic, Severity

_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_VISION_PARTS = ("vision_config", "vision_tower_config", "visual", "vit_config")
_NATIVE_KEYS = ("max_position_embeddings", "model_max_length", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_KEEPS_WINDOW = ("default", "su", "longrope", "llama3", "mrope")


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """The network as its config states it. Widths are elements, windows tokens; `parameters` counts text layers without a draft head, and
    is 0 where the widths that are read do not make all of them."""

    name: str
    model_type: str
    family: Family
    layers: int
    hidden: int
    vocab: int
    heads: int
    intermediate: int | None
    experts: int
    experts_per_token: int
    moe_intermediate: int
    indivisible: tuple[int, ...]
    kv: tuple[Group, ...]
    native: int
    rope: dict[str, Any]
    rope_nested: bool
    tied: bool
    multimodal: bool
    mtp_layers: int
    dtype: str
    parameters: int


def read_network(config: JsonFile) -> tuple[Network | None, list[Diagnostic]]:
    """The network, or None with all that is missing or wrong."""
    top = Fields(config)
    text = top.section(*_TEXT_PARTS) or top
    names = top.items("architectures", str)
    if not names:
        top.missing("architectures")
    family = family_of(text.text("model_type"), top.text("model_type"))
    if family is None:
        _unknown(top, text)
        return None, top.problems
    dtype = text.text("dtype", "torch_dtype") or top.text("dtype", "torch_dtype")
    if dtype is None:
        top.missing("dtype", "torch_dtype")
    groups = layer_groups(text, family, dtype or "")
    found = _network(top, text, family, dtype or "", groups, (names or [""])[0])
    return (None if any(d.is_error for d in top.problems) else found), top.problems


def _network(top: Fields, text: Fields, family: Family, dtype: str, groups: list[Group], name: str) -> Network:
    experts = text.whole("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts", least=0) or 0
    inner = _inner(text)
    moe = _expert_width(text, family, experts, inner)
    per_token = text.required("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k", "top_k_experts") if experts else 0
    if per_token > experts:
        text.wrong(
            "num_experts_per_tok",
            f"{per_token} experts are used for a token and there are {experts}",
            "Get config.json from its publisher again.",
        )
    shared = _shared_width(text, family, moe) if experts else 0
    native, rope, nested = _window(top, text, family)
    said = text.flag("tie_word_embeddings")
    tied = said if said is not None else top.flag("tie_word_embeddings")
    parts = _Parts(
        text, family, groups, text.required("hidden_size"), text.required("num_attention_heads"), inner or 0, experts, moe, shared
    )
    vocab = text.required("vocab_size")
    tied = family.tied if tied is None else tied
    return Network(
        name,
        top.text("model_type") or text.text("model_type") or "",
        family,
        text.required("num_hidden_layers"),
        parts.hidden,
        vocab,
        parts.heads,
        None if parts.dense == 0 else inner,
        experts,
        per_token,
        moe,
        _indivisible(groups, moe, shared, inner, parts.dense),
        tuple(groups),
        native,
        rope,
        nested,
        tied,
        any(isinstance(top.data.get(key), dict) and top.data[key] for key in _VISION_PARTS),
        text.whole("mtp_num_hidden_layers", "num_nextn_predict_layers", least=0) or 0,
        dtype,
        vocab * parts.hidden * (1 if tied else 2) + parts.layers() if family.counted else 0,
    )


def _unknown(top: Fields, text: Fields) -> None:
    """The refusal of a type that nobody here has read about."""
    kind = text.text("model_type") or top.text("model_type")
    if kind is None:
        top.missing("model_type")
        return
    top.say(
        "CKP004",
        Severity.ERROR,
        f"no reader for `model_type: {kind}`",
        "What its layers keep for each token is not known here, and a guess would be printed as a plan.",
        "Start a spec by hand (`podwright new model NAME`) and give `kv`, or a `measured_kv` from a start-up. "
        f"Read are: {', '.join(FAMILIES)}.",
        (*text.route, "model_type"),
    )


def _inner(text: Fields) -> int | None:
    """Inner width of a dense layer, the widest where each layer has its own."""
    if isinstance(text.data.get("intermediate_size"), list):
        return max(text.items("intermediate_size", int) or [0], default=0) or None
    return text.whole("intermediate_size", "block_ff_dim")


def _expert_width(text: Fields, family: Family, experts: int, inner: int | None) -> int:
    if not experts:
        return 0
    said = text.whole("moe_intermediate_size")
    return said or (inner if inner is not None and "moe_intermediate_size" not in text.data else text.required("moe_intermediate_size"))


def _shared_width(text: Fields, family: Family, moe: int) -> int:
    if family.layout == "chunked":
        return moe  # Llama 4 always has one shared expert, as wide as a routed one.
    said = text.whole("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size", least=0)
    count = text.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0) or 0
    return said if said is not None else count * moe


def _window(top: Fields, text: Fields, family: Family) -> tuple[int, dict[str, Any], bool]:
    """The longest window that the engine serves unasked, the rope parameters, and whether these stand in the text part."""
    said = [value for key in _NATIVE_KEYS if (value := text.whole(key)) is not None]
    if not said:
        text.missing(*_NATIVE_KEYS[:2])
    native = min(said, default=1)
    rope = text.section("rope_parameters", "rope_scaling") or top.section("rope_parameters", "rope_scaling")
    if rope is None or any(isinstance(value, dict) for value in rope.data.values()):
        return native, {}, text is not top
    kind, factor = rope.text("rope_type", "type") or "default", rope.number("factor")
    if kind == "yarn" and factor:
        original = rope.required("original_max_position_embeddings")
        native = round(original * factor)
    elif factor and kind not in _KEEPS_WINDOW and "gemma3" not in str(top.data.get("model_type")):
        native = round(native * factor)
    return (
        native,
        {"rope_theta": text.number("rope_theta"), **rope.data} if "rope_theta" not in rope.data else dict(rope.data),
        text is not top,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """What the number of parameters is made of."""

    text: Fields
    family: Family
    groups: list[Group]
    hidden: int
    heads: int
    inner: int
    experts: int
    moe: int
    shared: int

    @property
    def dense(self) -> int:
        """Layers with a plain feed-forward part."""
        total, data = self.text.required("num_hidden_layers"), self.text.data
        if self.family.layout == "nemotron":
            return hybrid_pattern(self.text).count("-")
        if self.family.name == "gemma4":
            return total  # Its experts stand beside a dense part.
        if not self.experts:
            return total
        listed = data.get("mlp_only_layers")
        if isinstance(listed, list) and listed:
            return len(listed)
        step = self.text.whole("decoder_sparse_step", "interleave_moe_layer_step") or 1
        return max(self.text.whole("first_k_dense_replace", "moe_layer_start_index", least=0) or 0, total - total // step)

    def layers(self) -> int:
        """Parameters of all layers, without norms and biases, which are some thousandths."""
        total = self.text.required("num_hidden_layers")
        matrices = 3 if self.family.gated else 2
        moe_layers = total - self.dense if self.experts else 0
        if self.family.layout == "nemotron":
            moe_layers = hybrid_pattern(self.text).count("E")
        mixed = self.experts * self.moe * matrices + self.experts + self.shared * matrices
        return sum(self._of(group["kind"], group) * int(group["layers"]) for group in self.groups) + self.hidden * (
            moe_layers * mixed + self.dense * self._dense_inner() * matrices
        )

    def _dense_inner(self) -> int:
        return (self.text.whole("intermediate_size_mlp") or self.inner) if self.family.layout == "chunked" else self.inner

    def _of(self, kind: str, group: Mapping[str, int]) -> int:
        if kind in ("full", "sliding", "chunked"):
            query = (
                self.heads * group["head_dim"] * (2 if self.text.data.get("attn_output_gate") or self.family.name == "qwen3-next" else 1)
            )
            return self.hidden * (query + 2 * group["kv_heads"] * group["head_dim"] + self.heads * group["head_dim"])
        if kind in ("mla", "mla-ds"):
            return self._latent(group)
        if kind == "indexer":
            asked = self.text.required("index_n_heads")
            return group["head_dim"] * (self.hidden + asked * (self.text.whole("q_lora_rank") or self.hidden)) + self.hidden * asked
        if kind == "gdn":
            keys, values = group["key_heads"] * group["key_head_dim"], group["value_heads"] * group["value_head_dim"]
            return self.hidden * (2 * keys + 3 * values + 2 * group["value_heads"]) + (2 * keys + values) * group["conv_kernel"]
        width = group["heads"] * group["head_dim"]
        if kind == "kda":
            return (
                self.hidden * (4 * width + 2 * group["head_dim"] + group["heads"])
                + 2 * group["head_dim"] * width
                + 3 * width * group["conv_kernel"]
            )
        states = 2 * group["groups"] * group["state_dim"]
        return self.hidden * (3 * width + states + group["heads"]) + (width + states) * group["conv_kernel"]

    def _latent(self, group: Mapping[str, int]) -> int:
        nope, value, rank = (
            self.text.required("qk_nope_head_dim", least=0),
            self.text.required("v_head_dim"),
            self.text.whole("q_lora_rank"),
        )
        query = self.heads * (nope + group["rope_dim"])
        asked = rank * (self.hidden + query) if rank else self.hidden * query
        return (
            asked
            + self.hidden * (group["kv_lora_rank"] + group["rope_dim"])
            + group["kv_lora_rank"] * self.heads * (nope + value)
            + self.heads * value * self.hidden
        )


def _indivisible(groups: list[Group], moe: int, shared: int, inner: int | None, dense: int) -> tuple[int, ...]:
    """Inner widths that tensor parallel must divide, besides the query heads."""
    heads = [group[key] for group in groups for key in ("key_heads", "value_heads", "heads") if key in group]
    widths = [width for width in (moe, shared, inner if dense and not moe else 0) if width]
    return tuple(sorted({*heads, *widths}))
