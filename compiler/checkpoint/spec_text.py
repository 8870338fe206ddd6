"""Facts to the text of a model spec. Comments say what a person must add; what was not read is not written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from compiler.checkpoint.facts import CheckpointFacts, thinks, tool_format

_MODELINE = "# yaml-language-server: $schema=../schemas/model.schema.json"
_BARE = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n", "nan", "inf"})
_FORMATS = frozenset({"int4", "int8", "fp8", "nvfp4", "mxfp4", "bf16", "fp16", "fp32"})
_READ_ONCE = ("shared-experts", "attention", "linear-attention", "mamba", "dense-mlp", "lm-head", "rest")


def model_spec_text(facts: CheckpointFacts, name: str) -> str:
    """The whole file `models/NAME.yaml`."""
    title = facts.files.repo or name
    sections = [
        f"{_MODELINE}\nkind: model\nsummary: {_scalar(f'{title}, as its own files describe it.')}\n",
        _checkpoint(facts, name),
        f"served_name: {_scalar(served_name(title))}\n",
        _architecture(facts),
        _quantization(facts),
        _weights(facts),
        _context(facts),
        _parsers(facts),
        _mtp(facts),
        _vision(facts),
        _notes(facts),
    ]
    return "".join(sections)


def served_name(title: str) -> str:
    """The repository's own name in lower case: what clients will send."""
    return re.sub(r"[^a-z0-9._-]+", "-", title.rpartition("/")[2].lower()).strip("-._") or "model"


def _checkpoint(facts: CheckpointFacts, name: str) -> str:
    files = facts.files
    rows: dict[str, Any] = {"repo": files.repo, "revision": files.revision} if files.repo else {"folder": f"/models/{name}"}
    rows |= {"published": files.published, "license": files.license, "gated": files.gated or None, "download": facts.download}
    rows["source"] = f"Sizes of all {len(files.sizes)} files of {files.where}{f' at {files.revision[:12]}' if files.revision else ''}."
    text = "checkpoint:\n" + _lines(rows)
    return text if files.repo else text.replace(f"/models/{name}\n", f"/models/{name}   # where you mount it inside the container\n")


def _architecture(facts: CheckpointFacts) -> str:
    n = facts.network
    rows: dict[str, Any] = {
        "name": n.name,
        "model_type": n.model_type,
        "family": n.family.name,
        "layers": n.layers,
        "hidden": n.hidden,
        "intermediate": n.intermediate,
        "vocab": n.vocab,
        "attention_heads": n.heads,
        "indivisible": n.indivisible or None,
        "experts": n.experts or None,
        "experts_per_token": n.experts_per_token or None,
        "moe_intermediate": n.moe_intermediate or None,
    }
    kv = "  kv:\n" + "".join(f"    - {_flow(group)}\n" for group in n.kv)
    more = {
        "multimodal": n.multimodal or None,
        "reasoning": thinks(facts.template) or None,
        "source": f"config.json of {facts.files.where}, read as transformers 5 reads it.",
    }
    return "architecture:\n" + _lines(rows) + kv + _lines(more)


def _quantization(facts: CheckpointFacts) -> str:
    q = facts.quantized
    text = (
        _open(facts, "quantization")
        + "quantization:\n"
        + _lines({"scheme": q.scheme, "activations": q.activations, "method": q.method, "min_compute_capability": q.minimum})
    )
    kernels = _kernels(facts)
    text += "  kernels:\n" + "".join(f"    - {_flow(row)}\n" for row in kernels) if kernels else ""
    text += "  parts:\n" + "".join(f"    - {_flow(row)}\n" for row in _part_rows(facts))
    note = (
        f"Formats and bytes by part are counted from the weight headers; {len(q.ignored)} modules are left as they were."
        if q.ignored
        else "Formats and bytes by part are counted from the weight headers."
    )
    return text + _lines({"block": list(q.block) or None, "kv_cache_scheme": q.kv_cache_scheme, "mtp_in_ignore_list": facts.mtp_ignored, "note": note})


def _kernels(facts: CheckpointFacts) -> list[dict[str, str]]:
    """Kernels as vLLM 0.27.1 picks them by compute capability, for the schemes where that was seen (specs/evidence)."""
    four = [{"min_compute_capability": "8.0", "kernel": "Marlin", "effective": "W4A16"}]
    rows = {
        "awq-int4": four,
        "gptq-int4": four,
        "nvfp4": four,
        "fp8": [
            {"min_compute_capability": "7.5", "kernel": "Marlin", "effective": "W8A16"},
            {"min_compute_capability": "8.9", "kernel": "native FP8 matrices", "effective": "W8A8"},
        ],
    }
    return [] if facts.quantized.activations == "W4A4" else rows.get(facts.quantized.scheme, [])


def _part_rows(facts: CheckpointFacts) -> Iterable[dict[str, Any]]:
    n = facts.network
    for part in facts.parts.parts.values():
        read = (
            part.bytes
            if part.name in _READ_ONCE
            else part.bytes * n.experts_per_token // n.experts
            if part.name == "routed-experts" and n.experts
            else None
        )
        if part.name == "embeddings" and n.tied:
            read = part.bytes  # The output reads the whole table.
        activations = {"W8A8": "fp8" if part.format == "fp8" else "int8", "W4A4": "fp4", "W4A8": "fp8"}.get(facts.quantized.activations)
        counts = part.format not in ("bf16", "fp16", "fp32") and activations is not None
        yield {
            "part": part.name,
            "weights": part.format,
            **({"activations": "fp8" if part.format == "fp8" else activations} if counts else {}),
            **({"bytes_read_per_token": read} if read is not None else {}),
        }


def _weights(facts: CheckpointFacts) -> str:
    p = facts.parts
    said = ["Bytes of all tensors in the weight headers, the draft head apart."]
    if p.narrowed:
        said.append(f"Matrices stored as float32 count as {facts.network.dtype}, {p.narrowed:,} bytes less.")
    if p.doubled_head:
        said.append(f"A stored output head of {p.doubled_head:,} bytes is left out: config.json ties it to the embeddings.")
    rows = {
        "loaded": p.total,
        "parameters": p.weights,
        "mtp": p.of("mtp") or None,
        "vision": p.of("vision") or None,
        "experts": p.of("routed-experts") or None,
        "source": " ".join(said),
    }
    return "weights:\n" + _lines(rows)


def _context(facts: CheckpointFacts) -> str:
    n = facts.network
    text = _open(facts, "context") + f"context:\n  native: {n.native}\n"
    rope = {
        key: value
        for key, value in n.rope.items()
        if key not in ("rope_type", "type", "factor", "original_max_position_embeddings") and value is not None
    }
    if n.rope.get("rope_type", "default") != "default" or not rope:
        return text
    location = "text-config" if n.rope_nested else "top-level"
    return text + f"  # yarn: {_flow({'factor': 'FACTOR', 'location': location, 'parameters': rope})}\n"


def _parsers(facts: CheckpointFacts) -> str:
    kind = tool_format(facts.template)
    return _open(facts, "parsers") + (f"parsers: {_flow({'tool_format': kind})}\n" if kind else "")


def _mtp(facts: CheckpointFacts) -> str:
    n, part = facts.network, facts.parts.parts.get("mtp")
    if not n.mtp_layers or part is None:
        return _open(facts, "mtp")
    rows = {
        "layers": n.mtp_layers,
        "weights": part.format if part.format in _FORMATS - {"fp32", "int8", "mxfp4"} else "bf16",
        "tensors": part.tensors,
    }
    return "mtp:\n" + _lines(rows)


def _vision(facts: CheckpointFacts) -> str:
    return _open(facts, "vision") + "# vision: {images_per_request: 4}\n" if facts.network.multimodal else ""


def _notes(facts: CheckpointFacts) -> str:
    if not facts.sampling:
        return ""
    note = f"generation_config.json sets {', '.join(facts.sampling)}; the engine takes that over as its default."
    return f"notes:\n  - {_scalar(note)}\n"


def _open(facts: CheckpointFacts, section: str) -> str:
    return "".join(f"# Not known from its files: {sentence}.\n" for at, sentence in facts.open if at == section)


def _lines(rows: Mapping[str, Any]) -> str:
    """Keys below a section; those without a value stay out."""
    return "".join(f"  {key}: {_value(value)}\n" for key, value in rows.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _flow(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    return _scalar(value)


def _flow(rows: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_value(value)}" for key, value in rows.items()) + "}"


def _scalar(value: object) -> str:
    """A scalar as YAML reads it back: text is quoted wherever it might be taken for something else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.1f}" if abs(value) < 1e6 else str(int(value))
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _BARE.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)
