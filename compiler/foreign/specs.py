"""A launch as specs, so that the resolver and the rules can look at it: what is written, over what the engine does without being told.

The product's own defaults have no place here. What the command leaves open is either the engine's own default, where its source
says it, or stays undecided.
"""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, Place, Severity
from compiler.foreign.launch import Launch
from compiler.foreign.named import parser_findings
from compiler.foreign.options import Arguments, arguments
from compiler.foreign.outside import outside_findings, too_few_gpus
from compiler.foreign.source import Word
from compiler.load import SpecStore, logical
from compiler.schema import EngineSettings, EngineSpec, HardwareSpec, ModelSpec, ProfileSpec
from compiler.schema.flags import Flag, FlagTable
from compiler.schema.lock import LockSpec
from compiler.schema.specset import SpecSet

_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LARGE_CARD_MIB = (
    70 * 1024
)  # From this size on the engine's server takes wider steps and more sequences, the A100 excepted (its get_batch_defaults).
WIDE, NARROW = {"max_num_batched_tokens": 8192, "max_num_seqs": 1024}, {"max_num_batched_tokens": 2048, "max_num_seqs": 256}
# What the product decides where nobody did, and an engine started by hand does not.
_SILENT = (
    "async_scheduling", "enable_auto_tool_choice", "enable_prompt_tokens_details", "host", "limit_mm_per_prompt", "mamba_cache_mode", "port",
    "reasoning_parser", "revision", "served_model_name", "tokenizer", "tokenizer_revision", "tool_call_parser",
)  # fmt: skip
# Variables by which the engine or its libraries decide; a token or a folder from outside is as it should be.
_DECIDING = ("VLLM_ATTENTION_", "VLLM_USE_", "VLLM_KV_", "VLLM_CPU_", "VLLM_ALLOW_", "VLLM_MARLIN_", "VLLM_FLASHINFER_", "NCCL_", "PYTORCH_", "CUDA_VISIBLE_DEVICES")
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
MOST_GPUS = 1024  # More than any single start of an engine spans; beyond it the number is a slip.
_STUB_MODEL = {
    "kind": "model", "summary": "A checkpoint that no spec describes.", "checkpoint": {"repo": "unknown/unknown", "download": 1}, "served_name": "unknown",
    "architecture": {"name": "unknown", "model_type": "unknown", "family": "unknown", "vocab": 1, "kv": ({"kind": "full", "layers": 1, "kv_heads": 1, "head_dim": 64},)},
    "quantization": {"scheme": "none", "activations": "W16A16", "min_compute_capability": "7.0"}, "weights": {"loaded": 1}, "context": {"native": 1},
}  # fmt: skip
_STUB_HARDWARE = {
    "kind": "hardware", "summary": "A card that nobody named.", "gpu": {"name": "unknown", "architecture": "ada", "compute_capability": "8.9", "vram_mib": 1},
    "count": 1, "interconnect": {"kind": "none", "peer_to_peer": False}, "host": {"kind": "owned-linux"},
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """The release that a command is read with. `exact` is false where its flags are another release's; `said` tells where it came from."""

    engine: EngineSpec
    name: str
    flags: FlagTable
    exact: bool
    said: str


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A launch with all that is known about it. `model` and `hardware` name specs, and are None where no spec fits.

    `more_gpus` is true where it spans more of the card than the spec has: how those reach each other nobody knows.
    """

    launch: Launch
    arguments: Arguments
    release: Release
    model: str | None
    hardware: str | None
    more_gpus: bool
    specs: SpecSet
    problems: tuple[Diagnostic, ...]


def described(launch: Launch, store: SpecStore, hardware: str | None = None, engine: str | None = None) -> Described:
    """A launch read with its release's options, with the specs that it means. `hardware` and `engine` name specs that exist."""
    release = release_of(launch, store, engine)
    read = arguments(launch, release.flags)
    model = model_named(read, store)
    specs = _specset(launch, read, release, store, model, hardware)
    more_gpus = hardware is not None and specs.hardware.count > store.spec("hardware", hardware)[0].count
    problems = (*read.problems, *_problems(launch, read, release), *(parser_findings(launch, read) if model is None else ()))
    return Described(launch, read, release, model, hardware, more_gpus, specs, problems)


def release_of(launch: Launch, store: SpecStore, engine: str | None) -> Release:
    """The engine spec that is named; else that of the image's tag; else the nearest one that has flags, or the newest."""
    known = _engines(store)
    tag = _TAG.search(launch.image.text) if launch.image is not None and not launch.image.unknown else None
    if engine is not None:
        spec, table = _engine(store, engine)
        return Release(spec, engine, table, True, f"vLLM {spec.release}, as --engine says")
    if tag is not None:
        wanted = _version(tag[1])
        name = next((n for n, spec in known.items() if _version(spec.release) == wanted), None)
        if name is not None:
            return Release(known[name], name, _engine(store, name)[1], True, f"vLLM {known[name].release}, by the image's tag")
        name = min(known, key=lambda n: (_distance(_version(known[n].release), wanted), n))
        spec, table = _engine(store, name)
        said = f"vLLM {tag[1]}, by the image's tag; its options are not known here, those of {table.release} are used"
        return Release(spec.model_copy(update={"release": tag[1]}), name, table, False, said)
    name = max(known, key=lambda n: (_version(known[n].release), n))
    spec, table = _engine(store, name)
    return Release(spec, name, table, True, f"vLLM {spec.release}, the newest release known here: nothing names one (--engine does)")


def model_named(read: Arguments, store: SpecStore) -> str | None:
    """The spec whose checkpoint is the model that the command names."""
    if read.model is None or read.model.unknown:
        return None
    for name in store.names("model"):
        spec = store.spec("model", name)[0]
        if isinstance(spec, ModelSpec) and spec.checkpoint.repo is not None and spec.checkpoint.repo.lower() == read.model.text.lower():
            return name
    return None


def repository(read: Arguments) -> str | None:
    """The model that the command names where it has the form of a Hub repository, ORG/NAME."""
    named = read.model
    return named.text if named is not None and not named.unknown and _REPO.fullmatch(named.text) else None


def gpus_asked(launch: Launch, read: Arguments) -> int:
    """GPUs that the parallel sizes need, or that the container reserves where it says more; 1 where neither says anything."""
    sizes = [read.options[name].value for name in _SIZES if name in read.options and not read.options[name].unknown]
    product = math.prod(size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MOST_GPUS)
    return max(min(product, MOST_GPUS), min(launch.gpus or 1, MOST_GPUS))


def _ranks_here(launch: Launch, read: Arguments) -> int:
    """Workers that surely share one container: those of tensor parallelism, since stages and replicas may stand elsewhere."""
    return min(_tensor_parallel(read), launch.gpus or MOST_GPUS, MOST_GPUS)


def _tensor_parallel(read: Arguments) -> int:
    option = read.options.get("tensor_parallel_size")
    size = option.value if option is not None and not option.unknown else 1
    return size if isinstance(size, int) and not isinstance(size, bool) else 1


def clean(value: Any) -> Any:
    """A value as a spec takes it: control characters and halves of characters, which no argument needs, become spaces."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() or unicodedata.category(c) in ("Zs", "Cf") else " " for c in value)
    if isinstance(value, dict):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    return tuple(clean(item) for item in value) if isinstance(value, (tuple, list)) else value


def engine_defaults(specs: SpecSet, flags: FlagTable, *, model_known: bool, hardware_known: bool) -> dict[str, Any]:
    """What the engine itself decides where the command says nothing; None is left to it unsaid."""
    values: dict[str, Any] = dict.fromkeys(_SILENT) | {"tensor_parallel_size": 1}
    utilization = flags.flags["gpu_memory_utilization"].default if "gpu_memory_utilization" in flags.flags else None
    values["gpu_memory_utilization"] = utilization if isinstance(utilization, float) else None
    gpu = specs.hardware.gpu
    is_large = gpu.vram_mib >= LARGE_CARD_MIB and "a100" not in gpu.name.lower()
    is_known = hardware_known and gpu.architecture != "cpu"
    values |= _batch_defaults(specs, WIDE if is_large else NARROW, model_known) if is_known else dict.fromkeys(WIDE)
    keeps_states = any(layers.kind in ("gdn", "mamba2", "kda", "conv") for layers in specs.model.architecture.kv)
    opts_in = keeps_states and "hybrid-prefix-cache-off-by-default" in specs.engine.limits
    values["enable_prefix_caching"] = (specs.model.architecture.prefix_caching and not opts_in) if model_known else None
    return values


def _batch_defaults(specs: SpecSet, usual: Mapping[str, int], model_known: bool) -> dict[str, int]:
    """Step width and sequences where one of them is not given: the engine fits it to the other and to the window
    (``engine/arg_utils.py: _set_default_max_num_seqs_and_batched_tokens_args``, the same in 0.26 to 0.33)."""
    given = {name: choice.value for name, choice in specs.profile.engine_args.items()}
    values, window = dict(usual), given.get("max_model_len", specs.model.context.native if model_known else None)
    if given.get("enable_chunked_prefill") is False and isinstance(window, int):
        values["max_num_batched_tokens"] = max(window, values["max_num_batched_tokens"])
    width = given.get("max_num_batched_tokens", values["max_num_batched_tokens"])
    if isinstance(width, int) and not isinstance(width, bool):
        values["max_num_seqs"] = min(values["max_num_seqs"], width)
    return values


def _specset(launch: Launch, read: Arguments, release: Release, store: SpecStore, model: str | None, hardware: str | None) -> SpecSet:
    args = {dest: {"value": clean(o.value)} for dest, o in read.options.items() if not o.unknown}
    env = {name: {"value": clean(word.text)} for name, word in launch.env.items() if _NAME.fullmatch(name) and not word.unknown}
    profile = ProfileSpec.model_validate(
        {
            "kind": "profile",
            "summary": "Read from a command.",
            "target": "docker",
            "model": model,
            "hardware": hardware,
            "engine": release.name,
            "engine_args": args,
            "env": env,
        }
    )
    model_spec = store.spec("model", model)[0] if model else ModelSpec.model_validate(_STUB_MODEL)
    hardware_spec = store.spec("hardware", hardware)[0] if hardware else HardwareSpec.model_validate(_STUB_HARDWARE)
    hardware_spec = hardware_spec.model_copy(update={"count": max(hardware_spec.count, gpus_asked(launch, read))})
    # What these specs ask the product to set or to mend is neither set nor mended in a command that does not say so; what an image of
    # somebody's own holds nobody can see.
    is_plain = launch.image is not None and launch.image.text.startswith("vllm/vllm-openai")
    mended: dict[str, Any] = {"list_patches": (), **({"engine_patches": ()} if is_plain else {})}
    bare: dict[str, Any] = {"engine": EngineSettings.model_validate({}), "env": {}}
    paths = {
        "profile": launch.source.path,
        "model": logical("model", model or ""),
        "hardware": logical("hardware", hardware or ""),
        "engine": logical("engine", release.name),
        "lock": "",
    }
    return SpecSet(
        "command", profile, model_spec.model_copy(update={**bare, **mended, "engine_args": {}}), hardware_spec.model_copy(update=bare), release.engine.model_copy(update={"env": {}}),
        release.flags, LockSpec.model_validate({}), (), {}, paths, {}, (), None,  # type: ignore[arg-type]  # All five kinds are there.
    )  # fmt: skip


def _problems(launch: Launch, read: Arguments, release: Release) -> list[Diagnostic]:
    """What can be said before any rule looks: no model, an option file's keys without effect, variables of the engine's from outside."""
    found = []
    if read.model is None:
        why = "The engine then serves its own small default model, or refuses."
        found.append(
            launch.source.finding(
                "CMD004", Severity.WARNING, "no model is named", why, "Name it after `serve`, as ORG/MODEL or as a folder.", launch.span
            )
        )
    is_gguf = any(o.value == "gguf" for name in ("quantization", "load_format") if (o := read.options.get(name)) is not None)
    found += outside_findings(launch, read.model, _ranks_here(launch, read), release.engine.release, is_gguf)
    backend = read.options.get("distributed_executor_backend")
    found += too_few_gpus(launch, _tensor_parallel(read), str(backend.value) if backend is not None else "")
    for key in launch.silent:
        flag = release.flags.flags.get(release.flags.by_option.get(key.text.replace("_", "-"), ""))
        if flag is not None and flag.default is not False:
            found.append(_silent(launch, flag, key))
    for name, word in launch.env.items():
        if word.unknown and name.startswith(_DECIDING):
            what = f"the value of {name} comes from outside: {', '.join(word.unknown)} is not given"
            fix = "Write the value to have it judged."
            found.append(launch.source.finding("CMD005", Severity.WARNING, what, "What depends on it is not judged.", fix, word.span))
    return found


def _silent(launch: Launch, flag: Flag, key: Word) -> Diagnostic:
    """An option file's `false`, which the engine leaves out, for an option that is not off by itself."""
    other = f"write `{flag.negative.lstrip('-')}: true`" if flag.negative else "no option of the release switches it off"
    why = "The engine leaves out what is false in an option file, and then decides by itself."
    return launch.source.finding("CMD010", Severity.WARNING, f"`{key.text.lstrip('-')}: false` has no effect", why, f"To switch it off, {other}.", key.span)


def _engines(store: SpecStore) -> dict[str, EngineSpec]:
    """Releases that serve on GPUs and have a flag table, by name."""
    found = {name: store.spec("engine", name)[0] for name in store.names("engine")}
    return {name: spec for name, spec in found.items() if isinstance(spec, EngineSpec) and not spec.preview and spec.distribution == "vllm"}


def _engine(store: SpecStore, name: str) -> tuple[EngineSpec, FlagTable]:
    spec, problems = store.spec("engine", name)
    table, more = store.flags(spec.flags, Place(logical("engine", name), ("flags",))) if spec is not None else (None, [])
    if spec is None or table is None:
        raise ValueError(f"the engine spec {name} cannot be used: {'; '.join(d.what for d in [*problems, *more])}")
    return spec, table


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", text)
    numbers = tuple(int(part) for part in match[0].split(".")[:3]) if match else ()
    return (*numbers, *(0,) * (3 - len(numbers)))


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    weights: Mapping[int, int] = {0: 1_000_000, 1: 1_000, 2: 1}
    return sum(abs(a - b) * weights[i] for i, (a, b) in enumerate(zip(one, other, strict=True)))
