"""`VL_*` variables: a manifest and a pod's environment give the manifest as it is worked by here. Pure.

Levers of the engine act on the manifest's own engine alone: the others of a swap set keep what was planned for them. Levers that the
bootstrap reads are checked and shown, and act through what it found out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from pod.argv import Argv, json_of, values_of, with_json, with_option, with_switch, without_option
from pod.contract import Bridge, Engine, Fetch, Launch, Manifest, Override

# What the documents' scripts used where a lever chose a method and nothing said how deep.
_NGRAM = {"VL_SPEC_N": 24, "VL_LOOK_MAX": 16, "VL_LOOK_MIN": 2}
_MTP_TOKENS = 3
_DRAFTS = {
    "dspark": ("VL_DSPARK_MODEL", "RedHatAI/Qwen3.6-35B-A3B-speculator.dspark", "VL_DSPARK_N", 8),
    "dflash": ("VL_DFLASH2_MODEL", "z-lab/Qwen3.8-27B-DFlash2", "VL_DFLASH2_N", 7),
}
_INSIDE_PORT = 18081
_ALL_INTERFACES = "0.0.0.0"
# The address on which clients are served, where the manifest's own is not wanted: on somebody's machine nothing but loopback is.
LISTEN_ENV = "PODWRIGHT_LISTEN"


class LeverError(Exception):
    """A lever whose value it may not have. The message never shows the value."""


@dataclasses.dataclass(frozen=True)
class Lever:
    """A lever in force: what was set, and what it does here."""

    name: str
    value: str
    effect: str


@dataclasses.dataclass(frozen=True)
class Levered:
    """The manifest as it is worked by, the name of the engine that starts first, and every lever in force."""

    manifest: Manifest
    first: str
    levers: tuple[Lever, ...]


def with_levers(manifest: Manifest, environ: Mapping[str, str]) -> Levered:
    """The manifest with every lever of the environment. Raises LeverError for a value that a lever may not have."""
    chosen = {o.name: environ[o.name] for o in manifest.supervisor.overrides if environ.get(o.name)}
    for override in manifest.supervisor.overrides:
        if override.name in chosen and not re.fullmatch(override.pattern, chosen[override.name]):
            raise LeverError(f"{override.name} does not match {override.pattern}; correct the pod's environment or remove it")
    first = chosen.get("VL_MODEL", manifest.engine.name)
    names = [manifest.engine.name, *(engine.name for engine in (manifest.swap.others if manifest.swap else ()))]
    if first not in names:
        raise LeverError(f"VL_MODEL names no engine of this profile; it may be {', '.join(names)}")
    effects: dict[str, str] = {}
    for override in manifest.supervisor.overrides:
        if override.name in chosen and override.option is not None:
            manifest = _with_engine(manifest, lambda argv, o=override: _option(argv, o, chosen[o.name]))  # type: ignore[misc]
            effects[override.name] = f"{override.option} {chosen[override.name]}"
    manifest = _speculation(manifest, chosen, effects)
    for name, act in _ACTS.items():
        if name in chosen:
            before, manifest = manifest, act(manifest, chosen[name])
            effects.setdefault(name, "changes nothing here" if manifest == before else _said(manifest, name))
    manifest = _consistent(manifest, chosen)
    if host := environ.get(LISTEN_ENV):
        manifest = _endpoint_host(manifest, host)
    shown = (Lever(o.name, chosen[o.name], effects.get(o.name, o.effect)) for o in manifest.supervisor.overrides if o.name in chosen)
    return Levered(manifest, first, tuple(shown))


def _said(manifest: Manifest, name: str) -> str:
    return next((o.effect for o in manifest.supervisor.overrides if o.name == name), "")


def _with_engine(manifest: Manifest, change: Callable[[Argv], Argv]) -> Manifest:
    return _launch(manifest, argv=change(manifest.engine.launch.argv))


def _launch(manifest: Manifest, **fields: Any) -> Manifest:
    return dataclasses.replace(manifest, engine=_relaunched(manifest.engine, **fields))


def _relaunched(engine: Engine, **fields: Any) -> Engine:
    launch: Launch = dataclasses.replace(engine.launch, **fields)
    return dataclasses.replace(engine, launch=launch)


def _option(argv: Argv, override: Override, value: str) -> Argv:
    assert override.option is not None
    if value in ("on", "off"):
        return with_switch(argv, override.option, value == "on")
    return with_option(argv, override.option, *value.split(" "))


def _switch(option: str) -> Callable[[Manifest, str], Manifest]:
    return lambda manifest, value: _with_engine(manifest, lambda argv: with_switch(argv, option, value == "on"))


def _yarn(manifest: Manifest, factor: float | None) -> Manifest:
    """YaRN taken out, or given another factor, in the overrides of the checkpoint's config; the window follows."""
    argv = manifest.engine.launch.argv
    overrides, window = _rope(json_of(argv, "--hf-overrides"), factor)
    if window is None:
        return manifest
    argv = with_json(argv, "--hf-overrides", overrides)
    asked = values_of(argv, "--max-model-len")
    if asked and asked[0].isdigit() and int(asked[0]) > window:
        argv = with_option(argv, "--max-model-len", str(window))
    return _launch(manifest, argv=argv)


def _rope(data: dict[str, Any], factor: float | None) -> tuple[dict[str, Any], int | None]:
    """The overrides without YaRN (factor None) or with another factor, and the longest window then; None where there is no YaRN."""
    found: int | None = None
    kept: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(value, dict):
            kept[key] = value
        elif value.get("rope_type") == "yarn" or value.get("type") == "yarn":
            native = int(value.get("original_max_position_embeddings", 0))
            found = int(native * (factor or 1.0))
            if factor is not None:
                kept[key] = {**value, "factor": factor}
        else:
            inner, window = _rope(value, factor)
            found = found if window is None else window
            if inner or window is None:
                kept[key] = inner
    return kept, found or None


def _video(manifest: Manifest, value: str) -> Manifest:
    limits = json_of(manifest.engine.launch.argv, "--limit-mm-per-prompt")
    limits = {**limits, "video": 0} if value == "on" else {k: v for k, v in limits.items() if k != "video"}
    return _with_engine(manifest, lambda argv: with_json(argv, "--limit-mm-per-prompt", limits))


def _images(manifest: Manifest, value: str) -> Manifest:
    limits = {**json_of(manifest.engine.launch.argv, "--limit-mm-per-prompt"), "image": int(value)}
    return _with_engine(manifest, lambda argv: with_json(argv, "--limit-mm-per-prompt", limits))


def _aliases(manifest: Manifest, value: str) -> Manifest:
    names = tuple(dict.fromkeys((*manifest.engine.served_names, *value.split(" "))))
    manifest = _with_engine(manifest, lambda argv: with_option(argv, "--served-model-name", *names))
    return dataclasses.replace(manifest, engine=dataclasses.replace(manifest.engine, served_names=names))


def _bridge(manifest: Manifest, value: str) -> Manifest:
    bridge = manifest.bridge
    if value == "off" and bridge.mode != "off":
        manifest = dataclasses.replace(manifest, bridge=dataclasses.replace(bridge, mode="off"))
        return _listening(manifest, _ALL_INTERFACES, bridge.port)
    if value == "on" and bridge.mode == "off":
        moved: Bridge = dataclasses.replace(bridge, mode="translate")
        return _listening(dataclasses.replace(manifest, bridge=moved), "127.0.0.1", _INSIDE_PORT)
    mode = "keepalive" if value == "keepalive" and bridge.mode != "off" else bridge.mode
    return dataclasses.replace(manifest, bridge=dataclasses.replace(bridge, mode=mode))


def _listening(manifest: Manifest, host: str, port: int) -> Manifest:
    """All engines of the manifest on another address: they take turns on it."""

    def moved(engine: Engine) -> Engine:
        argv = with_option(with_option(engine.launch.argv, "--host", host), "--port", str(port))
        return _relaunched(engine, argv=argv, host=host, port=port)

    swap = manifest.swap and dataclasses.replace(manifest.swap, others=tuple(map(moved, manifest.swap.others)))
    return dataclasses.replace(manifest, engine=moved(manifest.engine), swap=swap)


def _engine_port(manifest: Manifest, value: str) -> Manifest:
    return manifest if manifest.bridge.mode == "off" else _listening(manifest, manifest.engine.launch.host, int(value))


def _endpoint_port(manifest: Manifest, value: str) -> Manifest:
    moved = dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, port=int(value)))
    return moved if moved.bridge.mode != "off" else _listening(moved, moved.engine.launch.host, int(value))


def _endpoint_host(manifest: Manifest, host: str) -> Manifest:
    moved = dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, host=host))
    return moved if moved.bridge.mode != "off" else _listening(moved, host, moved.bridge.port)


def _supervisor(manifest: Manifest, **fields: Any) -> Manifest:
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, **fields))


def _journal_period(manifest: Manifest, value: str) -> Manifest:
    journal = manifest.supervisor.journal
    return _supervisor(manifest, journal=dataclasses.replace(journal, period_s=float(value))) if journal else manifest


def _speculation(manifest: Manifest, chosen: Mapping[str, str], effects: dict[str, str]) -> Manifest:
    """Speculative decoding by `VL_SPEC` and its depths. A speculating engine does not schedule ahead, so that option goes."""
    argv = manifest.engine.launch.argv
    now = json_of(argv, "--speculative-config")
    method = chosen.get("VL_SPEC", str(now.get("method", "off")))
    if method == "off":
        if "VL_SPEC" not in chosen or not now:
            return manifest
        effects["VL_SPEC"] = "speculative decoding is off"
        drafts = tuple(fetch for fetch in manifest.engine.launch.fetch if fetch.role != "draft")
        return _launch(manifest, argv=without_option(argv, "--speculative-config"), fetch=drafts)
    config, draft = _speculative(method, now if now.get("method") == method else {}, chosen)
    if config == now:
        return manifest
    effects.update({name: f"speculative decoding: {method}" for name in _SPECULATIVE if name in chosen})
    fetches = tuple(f for f in manifest.engine.launch.fetch if f.role != "draft" or f.repo == draft)
    if draft and all(fetch.repo != draft for fetch in fetches):
        fetches = (*fetches, Fetch("draft", draft, None, None))
    return _launch(manifest, argv=without_option(with_json(argv, "--speculative-config", config), "--async-scheduling"), fetch=fetches)


def _speculative(method: str, now: Mapping[str, Any], chosen: Mapping[str, str]) -> tuple[dict[str, Any], str | None]:
    """The object for a method and, where it needs one, the repository of its draft."""
    if method == "ngram":
        def depth(lever: str, key: str) -> int:
            return int(chosen.get(lever) or now.get(key) or _NGRAM[lever])

        return {"method": method, "num_speculative_tokens": depth("VL_SPEC_N", "num_speculative_tokens"),
                "prompt_lookup_max": depth("VL_LOOK_MAX", "prompt_lookup_max"), "prompt_lookup_min": depth("VL_LOOK_MIN", "prompt_lookup_min")}, None  # fmt: skip
    if method in _DRAFTS:
        model_lever, model, tokens_lever, tokens = _DRAFTS[method]
        repo = chosen.get(model_lever) or str(now.get("model") or model)
        return {**now, "method": method, "model": repo,
                "num_speculative_tokens": int(chosen.get(tokens_lever) or now.get("num_speculative_tokens") or tokens)}, repo  # fmt: skip
    return {**now, "method": method, "num_speculative_tokens": int(chosen.get("VL_MTP_N") or now.get("num_speculative_tokens") or _MTP_TOKENS)}, None


_SPECULATIVE = ("VL_SPEC", "VL_SPEC_N", "VL_LOOK_MIN", "VL_LOOK_MAX", "VL_MTP_N", "VL_DSPARK_MODEL", "VL_DSPARK_N", "VL_DFLASH2_MODEL", "VL_DFLASH2_N")


def _consistent(manifest: Manifest, chosen: Mapping[str, str]) -> Manifest:
    """What the bridge tells clients follows the window that the engine now has."""
    asked = values_of(manifest.engine.launch.argv, "--max-model-len")
    if not asked or not asked[0].isdigit() or not chosen.keys() & {"VL_CTX", "VL_YARN", "VL_YARN_FACTOR"}:
        return manifest
    window, bridge = int(asked[0]), manifest.bridge
    follows = bridge.max_prompt_tokens == manifest.engine.context_window or bridge.max_prompt_tokens > window
    return dataclasses.replace(manifest, engine=dataclasses.replace(manifest.engine, context_window=window),
                               bridge=dataclasses.replace(bridge, max_prompt_tokens=window if follows else bridge.max_prompt_tokens))  # fmt: skip


# In the order in which they act: the bridge decides who listens where before ports move.
_ACTS: dict[str, Callable[[Manifest, str], Manifest]] = {
    "VL_YARN": lambda manifest, value: manifest if value == "on" else _yarn(manifest, None),
    "VL_YARN_FACTOR": lambda manifest, value: _yarn(manifest, float(value)),
    "VL_ASYNC": _switch("--async-scheduling"),
    "VL_EP": _switch("--enable-expert-parallel"),
    "VL_NUMA": _switch("--numa-bind"),
    "VL_NUMA_NODES": lambda manifest, value: _with_engine(manifest, lambda argv: with_option(argv, "--numa-bind-nodes", *value.split(" "))),
    "VL_NOVIDEO": _video,
    "VL_MM_IMAGES": _images,
    "VL_ALIASES": _aliases,
    "VL_BRIDGE": _bridge,
    "VL_PORT": _engine_port,
    "VL_PROXY_PORT": _endpoint_port,
    "VL_CACHE": lambda manifest, value: manifest if value == "on" else _supervisor(manifest, compile_caches={}),
    "VL_JOURNAL": lambda manifest, value: manifest if value == "on" else _supervisor(manifest, journal=None),
    "VL_JOURNAL_PERIODE": _journal_period,
    **dict.fromkeys(_SPECULATIVE[1:], lambda manifest, value: manifest),
}
