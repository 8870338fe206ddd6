"""How a checkpoint says that it is quantized, in the dialects of its makers.

Lowest compute capabilities are those that vLLM 0.27.1 asks for in each method's `get_min_capability`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from compiler.checkpoint.json_file import Fields, JsonFile
from compiler.diagnostics import Diagnostic, Severity


@dataclasses.dataclass(frozen=True, slots=True)
class Quantized:
    """What the config says of its quantization.

    `bits` is of one weight, `block` are the rows and columns that share a scale, `ignored` are the modules left as they were, `unsaid` is
    what a person must settle.
    """

    scheme: str = "none"
    activations: str = "W16A16"
    method: str | None = None
    minimum: str = "8.0"
    bits: int = 16
    kv_cache_scheme: str | None = None
    block: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()


_MINIMUM = {
    "fp8": "7.5",
    "modelopt": "8.0",
    "nvfp4": "7.5",
    "awq-int4": "7.5",
    "gptq-int4": "7.5",
    "int8": "7.5",
    "mxfp4": "8.0",
    "bitsandbytes-nf4": "7.5",
}


def read_quantized(config: JsonFile, beside: JsonFile | None) -> tuple[Quantized | None, list[Diagnostic]]:
    """The quantization of config.json, or of hf_quant_config.json beside it; plain weights where neither says one."""
    top = Fields(config)
    nested = top.section("text_config", "llm_config", "language_config")
    said = top.section("quantization_config", "compression_config") or (nested.section("quantization_config") if nested else None)
    if said is not None and said.text("quant_method") is None and said.text("quant_algo") is None:
        said.missing("quant_method")
        return None, top.problems
    if said is None and beside is not None:
        file = Fields(beside, problems=top.problems)
        said = file.section("quantization")
        if said is None:
            file.missing("quantization")
            return None, top.problems
    if said is None:
        return Quantized(minimum="8.0" if _is_bfloat(top, nested) else "7.5"), top.problems
    found = _of_method(said)
    if found is None:
        method = said.data.get("quant_method") or said.data.get("quant_algo")
        what = f"quantization `{method}` with these settings is not read here"
        said.say(
            "CKP004",
            Severity.ERROR,
            what,
            "How its weights are stored and computed is not known here.",
            "Write the spec by hand: `podwright new model NAME`.",
            said.route,
        )
    return (None if any(d.is_error for d in top.problems) else found), top.problems


def _is_bfloat(top: Fields, nested: Fields | None) -> bool:
    return "bfloat16" in (f.data.get(key) for f in (top, nested) if f is not None for key in ("dtype", "torch_dtype"))


def _of_method(q: Fields) -> Quantized | None:
    method = (q.text("quant_method") or "modelopt").lower()
    readers = {
        "fp8": _fp8,
        "fbgemm_fp8": _fp8,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
        "awq": _awq,
        "gptq": _gptq,
        "auto-round": _rounded,
        "compressed-tensors": _compressed,
        "mxfp4": lambda q: Quantized("mxfp4", "W4A16", "mxfp4", _MINIMUM["mxfp4"], 4),
        "bitsandbytes": _bitsandbytes,
    }
    found = readers[method](q) if method in readers else None
    if found is None:
        return None
    kv = found.kv_cache_scheme or _cache_scheme(q)
    return dataclasses.replace(found, kv_cache_scheme=kv, ignored=_ignored(q), unsaid=found.unsaid)


def _fp8(q: Fields) -> Quantized:
    return Quantized("fp8", "W8A8", q.text("quant_method"), _MINIMUM["fp8"], 8, block=_block(q, "weight_block_size"))


def _block(q: Fields, key: str) -> tuple[int, ...]:
    """Rows and columns that share a scale; empty where the config names none, or no pair."""
    found = tuple(int(n) for n in q.items(key, int) or () if n > 0)
    return found if len(found) == 2 else ()


def _modelopt(q: Fields) -> Quantized | None:
    algo = (q.text("quant_algo") or "").upper()
    if "FP4" in algo or algo == "MIXED_PRECISION":
        unsaid = ("whether the products take 4-bit activations, which `quant_algo` does not say",)
        return Quantized("nvfp4", "W4A4", "modelopt", _MINIMUM["nvfp4"] if "FP4" in algo else _MINIMUM["modelopt"], 4, unsaid=unsaid)
    return Quantized("fp8", "W8A8", "modelopt", _MINIMUM["modelopt"], 8) if algo.startswith("FP8") else None


def _whole_bits(q: Fields, scheme: str) -> Quantized | None:
    bits = q.required("bits", "w_bit")
    if bits == 4:
        return Quantized(scheme, "W4A16", q.text("quant_method"), _MINIMUM[scheme], 4)
    return Quantized("int8", "W8A16", q.text("quant_method"), _MINIMUM["int8"], 8) if bits == 8 else None


def _awq(q: Fields) -> Quantized | None:
    return _whole_bits(q, "awq-int4")


def _gptq(q: Fields) -> Quantized | None:
    return _whole_bits(q, "gptq-int4")


def _rounded(q: Fields) -> Quantized | None:
    packing = q.text("packing_format") or ""
    return _whole_bits(q, "awq-int4" if "awq" in packing else "gptq-int4") if packing else None


def _bitsandbytes(q: Fields) -> Quantized | None:
    if q.flag("load_in_4bit") and q.text("bnb_4bit_quant_type") == "nf4":
        return Quantized("bitsandbytes-nf4", "W4A16", "bitsandbytes", _MINIMUM["bitsandbytes-nf4"], 4)
    return Quantized("int8", "W8A16", "bitsandbytes", _MINIMUM["int8"], 8) if q.flag("load_in_8bit") else None


def _compressed(q: Fields) -> Quantized | None:
    """The group with the fewest bits names the scheme; the parts table of the spec shows the others."""
    groups = q.section("config_groups")
    read = [
        found
        for name in (groups.data if groups else ())
        if groups is not None and (group := groups.section(name)) is not None and (found := _group(group)) is not None
    ]
    return min(read, key=lambda found: found.bits, default=None)


def _group(group: Fields) -> Quantized | None:
    weights, acts = group.section("weights"), group.section("input_activations")
    if weights is None:
        return None
    bits, kind = weights.required("num_bits"), weights.text("type") or "int"
    act_bits = acts.required("num_bits") if acts is not None else 16
    label = f"W{bits}A{act_bits}"
    if label not in ("W4A16", "W4A8", "W4A4", "W8A8", "W8A16"):
        return None
    if kind == "float":
        scheme = "fp8" if bits == 8 else "mxfp4" if weights.whole("group_size") == 32 else "nvfp4"
        block = _block(weights, "block_structure") if scheme == "fp8" and weights.text("strategy") == "block" else ()
        return Quantized(scheme, label, "compressed-tensors", _MINIMUM[scheme], bits, block=block)
    if bits == 8:
        return Quantized("int8", label, "compressed-tensors", _MINIMUM["int8"], 8)
    symmetric = weights.flag("symmetric")
    unsaid = (
        "whether AWQ or GPTQ chose these weights: asymmetric ones are called AWQ here, symmetric ones GPTQ; their kernels are the same",
    )
    return Quantized(
        "awq-int4" if symmetric is False else "gptq-int4", label, "compressed-tensors", _MINIMUM["gptq-int4"], 4, unsaid=unsaid
    )


def _cache_scheme(q: Fields) -> str | None:
    scheme = q.data.get("kv_cache_scheme")
    algo = str(q.data.get("kv_cache_quant_algo") or "").upper()
    if isinstance(scheme, dict):
        bits = scheme.get("num_bits")
        return ("fp8" if bits == 8 else "nvfp4" if bits == 4 else None) if scheme.get("type", "float") == "float" else None
    return "nvfp4" if "FP4" in algo else "fp8" if "FP8" in algo else None


def _ignored(q: Fields) -> tuple[str, ...]:
    """Modules left as they were, under any of the names that makers give the list."""
    found: Iterable[Any] = ()
    for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "llm_int8_skip_modules"):
        found = q.items(key, str) or found
    return tuple(str(name) for name in found)
