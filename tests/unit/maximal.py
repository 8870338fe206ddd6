"""Test help: one profile whose specs write every key that a spec may have, and a store that serves changed data."""

from __future__ import annotations

import copy
import functools
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from compiler.diagnostics import Diagnostic, Route
from compiler.load import SpecStore, load_specset, logical
from compiler.load.store import extended
from compiler.load.yaml_text import Document
from compiler.schema.specset import SpecSet
from tests.support import SPECS, share_files

NAME = "nemotron-ada"
PATHS = {
    "profile": logical("profile", NAME), "model": logical("model", "nemotron-nvfp4"), "hardware": logical("hardware", "rtx-6000-ada"), "engine": logical("engine", "vllm-0.27.1"),
}  # fmt: skip
SHA = "0123456789abcdef" * 4

PROFILE = """
verified: "2026-08-23"
target: runpod
names: [{name: first, reason: A reason.}]
images: {per_request: 2, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
engine_args:
  default_chat_template_kwargs: {value: {enable_thinking: yes please}, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
  uvicorn_log_level: {value: warning, reason: A reason.}
env: {MY_VARIABLE: {value: a value, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}}
speculation: {method: eagle3, tokens: 4, draft: {repo: owner/draft, revision: 0123456789abcdef0123456789abcdef01234567, loaded: 1GB}, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
container: {recipe: vllm-venv, prebaked: true, name: "registry.example/mine:1.0", extras: [fastokens], ssh: true, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
bridge: {mode: translate, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
watchdog: {probe_tokens: 24, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
swap: {members: [nemotron-a100], reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
compile_cache: {repo: owner/cache, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
journal: {repo: owner/journal, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
publish: {repo: owner/publish, when: idle, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
desktop: {port: 6080, password_env: VNC_PASSWORD, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
kv_store: {size_gib: 8, chunk: 1120, http_port: 8181, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
secrets: [{env: MY_TOKEN, name: my-token, purpose: A purpose.}]
client: {model: first, small_model: first, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
ignore: [{rule: MEM002, reason: A reason.}]
notes: [A note.]
yarn_factor: {value: 2.0, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
"""
DEPLOY = """
data_centers: [EU-SE-1]
price_ceiling: {usd_per_hour: 9.0, reason: A reason.}
cuda: {versions: ["13.0"], reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}
min_ram_gb: 400
network_volume: volume-id
registry_auth: credential-id
reason: A reason.
evidence: [nemotron-ada/nemotron-ada-control-solo]
"""
MODEL = """
checkpoint: {repo: owner/model, revision: 0123456789abcdef0123456789abcdef01234567, published: "2026-08", license: mit, gated: true, download: 18GB, source: A source.}
tokenizer: {repo: owner/tokenizer, revision: 0123456789abcdef0123456789abcdef01234567, reason: A reason.}
list_patches: [{file: config.json, key_path: [a, b], append: [c], reason: A reason.}]
engine_patches: [{file: patch.py, repo: owner/patches, sha256: SHA, releases: ["0.27.1"], expects: {vllm/envs.py: SHA}, reason: A reason.}]
chat_template_kwargs: {enable_thinking: yes please}
aliases: [an-alias]
env: {MODEL_VARIABLE: {value: a value, reason: A reason.}}
engine_args: {uvicorn_log_level: {value: info, reason: A reason.}}
mtp: {layers: 1, weights: bf16, note: A note., evidence: [nemotron-ada/nemotron-ada-control-solo]}
vision: {images_per_request: 2, note: A note., evidence: [nemotron-ada/nemotron-ada-control-solo]}
resources: {ram: 90GB, disk: 60GB, reason: A reason.}
context: {native: 1048576, yarn: {factor: 2.0, location: top-level, parameters: {rope_theta: a text}, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}}
speculation: [{method: dspark, verdict: wins, reason: A reason., evidence: [nemotron-ada/nemotron-ada-control-solo]}]
notes: [A note.]
parsers: {tool_call: qwen3_coder, reasoning: nemotron_v3, tool_format: qwen-xml}
""".replace("SHA", f'"{SHA}"')


def maximal() -> dict[str, Any]:
    """Data of the four specs by logical path, with every key that can hold text."""
    store = SpecStore([SPECS])
    data = {path: copy.deepcopy(store.document(path)[0].data) for path in PATHS.values()}
    merged = extended(store, NAME)[0]
    assert merged is not None
    profile = {**merged, **plain(PROFILE)}
    profile["deploy"] = {**merged["deploy"], **plain(DEPLOY)}
    profile["settings"] = {**merged["settings"], "kv_cache_dtype": {"value": "bfloat16", "reason": "A reason."}}
    data[PATHS["profile"]] = profile
    model = {**data[PATHS["model"]], **plain(MODEL)}
    model["architecture"] = {**model["architecture"], "min_engine": "0.20.0", "min_transformers": "5.0.0", "source": "A source."}
    model["quantization"] = {**model["quantization"], "method": "modelopt_fp4", "note": "A note.", "evidence": ("nemotron-ada/nemotron-ada-control-solo",)}
    model["quantization"].pop("kv_cache_scheme", None)
    model["weights"] = {**model["weights"], "source": "A source."}
    data[PATHS["model"]] = model
    hardware = data[PATHS["hardware"]]
    hardware["env"] = {"NCCL_P2P_LEVEL": {"value": "PIX", "reason": "A reason.", "evidence": ("nemotron-ada/nemotron-ada-control-solo",)}}
    hardware["nccl_conf"] = True
    hardware["interconnect"] = {**hardware["interconnect"], "note": "A note.", "evidence": ("nemotron-ada/nemotron-ada-control-solo",)}
    hardware["gpu"] = {**hardware["gpu"], "source": "A source."}
    hardware["prices"] = ({"usd_per_hour": 1.0, "date": "2026-08-01", "source": "A source."},)
    hardware["notes"] = ("A note.",)
    engine = data[PATHS["engine"]]
    engine["images"] = tuple({**image, "digest": f"sha256:{SHA}", "note": "A note."} for image in engine["images"])
    engine["extras"] = {name: {**extra, "evidence": ("nemotron-ada/nemotron-ada-control-solo",)} for name, extra in engine["extras"].items()}
    engine["env"] = {"ENGINE_VARIABLE": {"value": "a value", "reason": "A reason.", "evidence": ("nemotron-ada/nemotron-ada-control-solo",)}}
    engine["features"], engine["limits"], engine["notes"] = (*engine.get("features", ()), "a-feature"), (*engine.get("limits", ()), "a-limit"), ("A note.",)
    return data


def plain(text: str) -> Any:
    """YAML of this file as a spec's data: lists are tuples."""
    return tuples(yaml.safe_load(text))


def tuples(value: Any) -> Any:
    """`value` with tuples for lists, at every depth."""
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


@functools.cache
def _shared(roots: tuple[Path, ...]) -> SpecStore:
    store = SpecStore(roots)
    load_specset(store, NAME)
    return store


class DataStore(SpecStore):
    """The shipped specs, with some documents replaced by data."""

    def __init__(self, data: dict[str, Any], roots: tuple[Path, ...] = (SPECS,)) -> None:
        super().__init__(roots)
        shared = _shared(roots)  # What does not change is read and checked once.
        share_files(shared, self)
        self._specs = {key: value for key, value in shared._specs.items() if logical(*key) not in data}
        self._data = data

    def document(self, path: str) -> tuple[Document, list[Diagnostic]]:
        """The document with its data replaced."""
        document, problems = super().document(path)
        return (Document(path, document.lines, self._data[path], document.marks), problems) if path in self._data else (document, problems)


def loaded(data: dict[str, Any], name: str = NAME) -> tuple[SpecSet | None, list[Diagnostic]]:
    """The profile's specs, with these documents."""
    return load_specset(DataStore(data), name)


def texts(value: Any, route: Route = ()) -> Iterator[tuple[Route, bool]]:
    """Routes of all text in data, and whether the text is the key itself."""
    if isinstance(value, str):
        yield route, False
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*route, key), True
            yield from texts(item, (*route, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from texts(item, (*route, index))


def replaced(value: Any, route: Route, new: object, *, key: bool = False) -> Any:
    """`value` with the text at `route`, or its key, replaced."""
    if not route:
        return new
    head, rest = route[0], route[1:]
    if isinstance(value, dict):
        if key and not rest:
            return {(new if k == head else k): item for k, item in value.items()}
        return {k: replaced(item, rest, new, key=key) if k == head else item for k, item in value.items()}
    return tuple(replaced(item, rest, new, key=key) if i == head else item for i, item in enumerate(value))


def text_fields(kind: type[BaseModel]) -> set[tuple[str, str]]:
    """Every (model, field) reachable from a kind of spec that can hold free text."""
    found: set[tuple[str, str]] = set()
    waiting, seen = [kind], set()
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            types_in = list(_leaves(field.annotation))
            if str in types_in:
                found.add((_plain_name(model), name))
            waiting += [t for t in types_in if isinstance(t, type) and issubclass(t, BaseModel)]
    return found


def written_fields(spec: BaseModel) -> set[tuple[str, str]]:
    """Every (model, field) that a spec writes."""
    found = {(_plain_name(type(spec)), name) for name in spec.model_fields_set}
    for name in spec.model_fields_set:
        waiting = [getattr(spec, name)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, BaseModel):
                found |= written_fields(value)
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, tuple):
                waiting += value
    return found


def _plain_name(model: type[BaseModel]) -> str:
    return model.__name__.partition("[")[0]


def _leaves(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return
    if origin in (typing.Union, types.UnionType, tuple, dict, typing.Annotated):
        for arg in typing.get_args(annotation):
            yield from _leaves(arg)
    else:
        yield annotation
