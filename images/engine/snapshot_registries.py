"""What a vLLM release knows by name, for `snapshot_flags.py`: parsers, backends, dtypes, methods, architectures, variables.

Each entry asks the release itself. A registry that a release moved or dropped is left out of the document rather than guessed,
and named under `missing`, so that a rule can tell "not known" from "not looked at".
"""
from __future__ import annotations

import importlib
import json
import typing
from collections.abc import Callable, Iterable
from typing import Any

Names = list[str]
ABILITIES = ("is_mla", "is_sparse", "supports_sink", "supports_mm_prefix", "supports_sliding_window", "supports_non_causal", "supports_kv_connector")
# Parts of the document whose entries are opened up further than one line each.
OPENED = {"configs": 3, "registries": 2}


def names_in(hint: Any) -> Names:
    """The values of a `Literal`, with those nested in it."""
    found: Names = []
    for part in typing.get_args(hint):
        found += names_in(part) if typing.get_args(part) else [str(part)]
    return found


def attribute(path: str) -> Any:
    """The object at `package.module:name.name`."""
    module, _, names = path.partition(":")
    value = importlib.import_module(module)
    for name in names.split("."):
        value = getattr(value, name)
    return value


def literal(path: str) -> Callable[[], Names]:
    """A reader of a `Literal`'s values."""
    return lambda: names_in(attribute(path))


def members(path: str) -> Callable[[], Names]:
    """A reader of an enumeration's names."""
    return lambda: list(attribute(path).__members__)


def called(path: str) -> Callable[[], Names]:
    """A reader of what a registry's own listing function gives."""
    return lambda: [str(name) for name in attribute(path)()]


def keys(path: str) -> Callable[[], Names]:
    """A reader of a mapping's keys or a list's values."""
    return lambda: [str(name) for name in attribute(path)]


READERS: dict[str, Callable[[], Names]] = {
    "all2all_backends": literal("vllm.config.parallel:All2AllBackend"),
    "attention_backends": members("vllm.v1.attention.backends.registry:AttentionBackendEnum"),
    "config_model_types": keys("vllm.transformers_utils.config:_CONFIG_REGISTRY"),
    "cudagraph_modes": members("vllm.config.compilation:CUDAGraphMode"),
    "dtypes": literal("vllm.config.model:ModelDType"),
    "environment_variables": keys("vllm.envs:environment_variables"),
    "kv_cache_dtypes": literal("vllm.config.cache:CacheDType"),
    "kv_connectors": keys("vllm.distributed.kv_transfer.kv_connector.factory:KVConnectorFactory._registry"),
    "kv_offloading_backends": literal("vllm.config.cache:KVOffloadingBackend"),
    "linear_backends": literal("vllm.config.kernel:LinearBackend"),
    "load_formats": literal("vllm.model_executor.model_loader:LoadFormats"),
    "mamba_backends": members("vllm.config.mamba:MambaBackendEnum"),
    "mamba_cache_modes": literal("vllm.config.cache:MambaCacheMode"),
    "mamba_dtypes": literal("vllm.config.cache:MambaDType"),
    "mamba_ssu_algorithms": literal("vllm.config.mamba:MambaSSUAlgorithm"),
    "model_architectures": called("vllm.model_executor.models.registry:ModelRegistry.get_supported_archs"),
    "moe_backends": literal("vllm.config.kernel:MoEBackend"),
    "quantization_methods": keys("vllm.model_executor.layers.quantization:QUANTIZATION_METHODS"),
    "quantization_methods_deprecated": keys("vllm.model_executor.layers.quantization:DEPRECATED_QUANTIZATION_METHODS"),
    "reasoning_parsers": called("vllm.reasoning:ReasoningParserManager.list_registered"),
    "speculative_methods": literal("vllm.config.speculative:SpeculativeMethod"),
    "structured_outputs_backends": literal("vllm.config.structured_outputs:StructuredOutputsBackend"),
    "tokenizer_modes": literal("vllm.config.model:TokenizerMode"),
    "tool_parsers": called("vllm.tool_parsers:ToolParserManager.list_registered"),
}


def registries() -> dict[str, Any]:
    """Every registry's names, sorted, the architectures that the release has dropped, and quantization's least capability."""
    found: dict[str, Any] = {}
    missing: Names = []
    for name, read in READERS.items():
        try:
            found[name] = sorted(set(read()))
        except (ImportError, AttributeError):
            missing.append(name)
    try:
        found["model_architectures_dropped"] = dict(sorted(attribute("vllm.model_executor.models.registry:_PREVIOUSLY_SUPPORTED_MODELS").items()))
    except AttributeError:
        missing.append("model_architectures_dropped")
    found["quantization_min_capability"] = quantization_min_capability(found.get("quantization_methods", []))
    return found | {"missing": sorted(missing)}


def quantization_min_capability(methods: Iterable[str]) -> dict[str, int]:
    """The least compute capability (89 for 8.9) that each quantization method's class asks for.

    A method whose class cannot be imported without a card is left out; so is one that needs arguments to answer.
    """
    config_of = attribute("vllm.model_executor.layers.quantization:get_quantization_config")
    found: dict[str, int] = {}
    for method in methods:
        try:
            found[method] = int(config_of(method).get_min_capability())
        except Exception:  # a third-party kernel library may fail to import in any way of its own
            continue
    return found


def backends(capabilities: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """What each CUDA attention backend's class says of itself; one that does not import here says why.

    The MLA ones come last: CUTLASS's takes card memory while it is imported, and its failure breaks FlashInfer's import after it.
    """
    enumeration = attribute("vllm.v1.attention.backends.registry:AttentionBackendEnum")
    cards = list(capabilities)
    found: dict[str, Any] = {}
    for name, member in sorted(enumeration.__members__.items(), key=lambda pair: ("MLA" in pair[0], pair[0])):
        if not member.value or name.startswith(("ROCM", "XPU", "CPU")):
            continue
        try:
            found[name] = described_backend(member.get_class(), cards)
        except Exception as error:  # kernels of other cards raise what they like when there is no such card
            found[name] = {"not_importable": type(error).__name__}
    return found


def described_backend(backend: Any, cards: list[tuple[int, int]]) -> dict[str, Any]:
    """A backend's KV cache dtypes, head sizes (none listed: any), block sizes, cards and abilities.

    The dtypes are those that the class declares. FLASH_ATTN still refuses fp8 where it falls back to its version 2, that is
    everywhere but on 9.0 and 10.x. A question that a backend answers only for a running engine is left out.
    """
    capability = attribute("vllm.platforms.interface:DeviceCapability")
    questions: dict[str, Callable[[], Any]] = {
        "declared_kv_cache_dtypes": lambda: sorted(map(str, backend.supported_kv_cache_dtypes or [])),
        "head_sizes": lambda: sorted(backend.get_supported_head_sizes()),
        "block_sizes": lambda: [f"multiple of {size.base}" if hasattr(size, "base") else size for size in backend.get_supported_kernel_block_sizes()],
        "capabilities": lambda: [f"{major}.{minor}" for major, minor in cards if backend.supports_compute_capability(capability(major, minor))],
        "abilities": lambda: [name for name in ABILITIES if able(backend, name)],
    }
    found: dict[str, Any] = {}
    for name, answer in questions.items():
        try:
            found[name] = answer()
        except Exception:  # an assertion of a running engine, or a kernel library that wants a card
            found.setdefault("not_answered", []).append(name)
    return found


def able(backend: Any, ability: str) -> bool:
    """Whether a backend says that it has an ability; one that only a running engine can answer for counts as no."""
    try:
        return bool(getattr(backend, ability)())
    except Exception:  # FlashInfer's answer about attention sinks asserts that an engine is being configured
        return False


def compact(value: Any) -> str:
    """A value on one line."""
    return json.dumps(value, ensure_ascii=True, sort_keys=False)


def diffable(document: dict[str, Any]) -> str:
    """The document as JSON text with one flag, field, name or backend a line: two releases' files diff well."""
    parts = []
    for key, value in document.items():
        if isinstance(value, (dict, list)) and value:
            parts.append(f"{compact(key)}: {block(value, OPENED.get(key, 1))}")
        else:
            parts.append(f"{compact(key)}: {compact(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def block(value: Any, depth: int, indent: str = " ") -> str:
    """A mapping (by sorted keys) or a list, one entry a line; `depth` counts how many levels are opened up so."""
    if not isinstance(value, (dict, list)) or not value or depth == 0:
        return compact(value)
    inner = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"{indent}{block(item, depth - 1, inner)}" for item in value) + f"\n{indent[:-1]}]"
    lines = [f"{indent}{compact(key)}: {block(value[key], depth - 1, inner)}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + f"\n{indent[:-1]}" + "}"
