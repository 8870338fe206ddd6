"""All files of a checkpoint to one set of facts, with everything that is wrong or could not be known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from compiler.checkpoint.json_file import Fields, JsonFile, read_json
from compiler.checkpoint.network import Network, read_network
from compiler.checkpoint.parts import Counted, counted
from compiler.checkpoint.quantized import Quantized, read_quantized
from compiler.checkpoint.tensors import Shard, Tensor, index_problems, tensors_of
from compiler.diagnostics import Diagnostic, Place, Severity

INDEX = "model.safetensors.index.json"
JSON_FILES = ("config.json", "hf_quant_config.json", "generation_config.json", "tokenizer_config.json", INDEX)
TEMPLATE = "chat_template.jinja"
NOTED, WRONG = 0.03, 0.10
"""Shares by which stored weights may differ from what config.json makes of its widths: norms, biases and gates are some thousandths."""


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """What was read. `texts` are the small files that exist, `sizes` bytes of every file, `shards` the headers of the weights.

    `repo` and `revision` name a Hub repository; `where` is how messages and sources call the place.
    """

    where: str
    texts: Mapping[str, bytes]
    sizes: Mapping[str, int]
    shards: tuple[Shard, ...]
    repo: str | None = None
    revision: str | None = None
    gated: bool = False
    license: str | None = None
    published: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What a model spec is written from. `open` are the facts that a person must add, as (route of the spec, sentence)."""

    files: CheckpointFiles
    network: Network
    quantized: Quantized
    parts: Counted
    template: str | None
    sampling: tuple[str, ...]
    mtp_ignored: bool | None
    open: tuple[tuple[str, str], ...]

    @property
    def download(self) -> int:
        """Bytes of all files."""
        return sum(self.files.sizes.values())


def checkpoint_facts(files: CheckpointFiles) -> tuple[CheckpointFacts | None, list[Diagnostic]]:
    """The facts, or None with all that stands in the way; findings that are no errors come with the facts."""
    json_files, problems = _read(files)
    config = json_files.get("config.json")
    if config is None:
        return None, problems or [_no_config(files)]
    network, found = read_network(config)
    quantized, more = read_quantized(config, json_files.get("hf_quant_config.json"))
    problems += [*found, *(d for d in more if d not in found)]
    tensors, more = _tensors(files, json_files.get(INDEX))
    problems += more
    if network is None or quantized is None or any(d.is_error for d in problems):
        return None, problems
    parts = counted(tensors, quantized, network.layers, tied=network.tied, dtype=network.dtype)
    quantized = _settled(quantized, parts)
    if any(shard.header is None for shard in files.shards):  # Who read the files has said it, and weights that are missing then tell nothing.
        return None, problems
    problems += _count_problems(network, parts)
    template = _template(files, json_files.get("tokenizer_config.json"))
    facts = CheckpointFacts(
        files,
        network,
        quantized,
        parts,
        template,
        _sampling(json_files.get("generation_config.json")),
        mtp_ignored(network, quantized),
        _open(network, quantized, parts, template),
    )
    return (None if any(d.is_error for d in problems) else facts), problems


def _read(files: CheckpointFiles) -> tuple[dict[str, JsonFile], list[Diagnostic]]:
    found: dict[str, JsonFile] = {}
    problems: list[Diagnostic] = []
    for name, content in files.texts.items():
        if name.endswith(".json"):
            file, more = read_json(name, content)
            problems += more
            if file is not None:
                found[name] = file
    return found, problems


def _no_config(files: CheckpointFiles) -> Diagnostic:
    what = f"{files.where} has no config.json"
    return Diagnostic(
        "CKP001",
        Severity.ERROR,
        what,
        "Nothing else says what the network is.",
        "Name the repository or the folder of a checkpoint in the transformers layout; a GGUF file is none.",
        Place(files.where),
    )


def _tensors(files: CheckpointFiles, index: JsonFile | None) -> tuple[list[Tensor], list[Diagnostic]]:
    if not files.shards and index is None:
        what = f"{files.where} has no safetensors files"
        return [], [
            Diagnostic(
                "CKP005",
                Severity.ERROR,
                what,
                "Bytes and types of the weights are read from their headers alone.",
                "Take a checkpoint in safetensors; for weights of another kind write the spec by hand.",
                Place(files.where),
            )
        ]
    problems: list[Diagnostic] = []
    by_file: dict[str, list[Tensor]] = {}
    for shard in files.shards:
        if shard.header is not None:
            tensors, more = tensors_of(shard)
            problems += more
            if not more:
                by_file[shard.name] = tensors
    if index is not None:
        problems += index_problems(index, files.sizes, by_file)
    names = [tensor.name for tensors in by_file.values() for tensor in tensors]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        problems.append(
            Diagnostic(
                "CKP006",
                Severity.ERROR,
                f"{len(twice)} tensors stand in two files, {twice[0]} first",
                "A sum would count them twice.",
                "Download the repository into an empty folder.",
                Place(files.where),
            )
        )
    return [tensor for tensors in by_file.values() for tensor in tensors], problems


def _settled(quantized: Quantized, parts: Counted) -> Quantized:
    """Whether FP4 weights meet 4-bit activations is told by the input scales that the files hold."""
    if quantized.scheme != "nvfp4" or quantized.method != "modelopt":
        return quantized
    return dataclasses.replace(quantized, activations="W4A4" if parts.has_input_scales else "W4A16", unsaid=())


def _count_problems(network: Network, parts: Counted) -> list[Diagnostic]:
    """Stored weights against those that the config's widths make."""
    stored, expected = parts.text_weights, network.parameters
    if not network.family.counted:
        return []
    share = abs(stored - expected) / expected
    if share <= NOTED:
        return []
    what = (
        f"config.json makes {expected / 1e9:.3f} billion weights and the files hold {stored / 1e9:.3f} billion, {100 * share:.1f} % apart"
    )
    severity = Severity.ERROR if share > WRONG else Severity.WARNING
    return [
        Diagnostic(
            "CKP007",
            severity,
            what,
            "Config and weights are of two models, or the files are not whole.",
            "Compare both with the publisher's page.",
            Place("config.json"),
        )
    ]


def _template(files: CheckpointFiles, tokenizer: JsonFile | None) -> str | None:
    """The chat template: a file of its own, or a text in the tokenizer's config, where several have names."""
    if TEMPLATE in files.texts:
        return files.texts[TEMPLATE].decode("utf-8", "replace")
    said = tokenizer.data.get("chat_template") if tokenizer is not None else None
    if isinstance(said, list):
        named = {item.get("name"): item.get("template") for item in said if isinstance(item, dict)}
        said = named.get("tool_use") or named.get("default")
    return said if isinstance(said, str) else None


def _sampling(generation: JsonFile | None) -> tuple[str, ...]:
    """Sampling settings that the engine takes over as its defaults."""
    if generation is None:
        return ()
    fields = Fields(generation)
    found = {key: fields.number(key) for key in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
    return tuple(f"{key} {value:g}" for key, value in found.items() if value is not None)


def _open(network: Network, quantized: Quantized, parts: Counted, template: str | None) -> tuple[tuple[str, str], ...]:
    """What the files do not tell and a person must."""
    found = [("quantization", text) for text in quantized.unsaid]
    if template is None:
        found.append(("parsers", "how it calls tools, and whether it thinks, since no chat template came with them"))
    else:
        found.append(
            ("parsers", "which of the engine's parsers reads the markup of its chat template; a first request with a tool shows it")
        )
    if network.multimodal:
        found.append(("vision", "how many images a request may hold, which is your choice"))
    if network.mtp_layers and "mtp" not in parts.parts:
        found.append(
            (
                "mtp",
                f"where the {network.mtp_layers} draft layers of config.json are: no tensor of them is there, so mtp cannot load",
            )
        )
    found.append(("context", "whether its publisher allows a longer window by YaRN; the model's page may say so"))
    return tuple(found)


def mtp_ignored(network: Network, quantized: Quantized) -> bool | None:
    """Whether the quantization's ignore list names the draft head; None without a head or a quantization."""
    if quantized.scheme == "none" or not network.mtp_layers:
        return None
    return any("mtp" in name or f"layers.{network.layers}" in name for name in quantized.ignored)


def tool_format(template: str | None) -> str | None:
    """The markup of a tool call that a chat template writes; None without a template."""
    if template is None:
        return None
    if "<|tool_calls_section_begin|>" in template:
        return "kimi-sections"
    if "<function=" in template:
        return "qwen-xml"
    return "hermes-json" if "<tool_call>" in template and json.dumps("name") in template else "other"


def thinks(template: str | None) -> bool:
    """True where a chat template opens or strips a thought."""
    return template is not None and any(
        mark in template for mark in ("<think>", "</think>", "reasoning_content", "enable_thinking", "<|channel|>analysis")
    )
