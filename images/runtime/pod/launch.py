"""From a manifest and this pod's environment to the engine's command line. Pure: nothing is started or read here.

This runtime version has no bridge. An engine that was to sit behind one takes the endpoint's port itself, and keeps the
lock on the door: the key that the bridge would have asked for becomes the engine's own (`VLLM_API_KEY`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from pod.contract import Manifest
from pod.strict_json import ShapeError, parsed

# The bootstrap hands its findings on in this variable, as a JSON object of names and values.
HOST_ENV = "PODWRIGHT_HOST_ENV"
# RunPod leaves the reference in place when the account holds no secret of that name.
_UNRESOLVED_SECRET = re.compile(r"\{\{\s*RUNPOD_SECRET_")
_ALL_INTERFACES = "0.0.0.0"


class LaunchError(Exception):
    """The manifest is sound, and the engine cannot be started in this pod: a secret or a part of the runtime is missing."""


@dataclasses.dataclass(frozen=True)
class LaunchPlan:
    """What will be started, with which complete environment, and what a reader of the log must know first."""

    argv: tuple[str, ...]
    env: dict[str, str]
    port: int
    notes: tuple[str, ...]


def launch_plan(manifest: Manifest, environ: Mapping[str, str]) -> LaunchPlan:
    """The engine's start in an environment. Raises LaunchError where it would not serve what the manifest promises."""
    if manifest.kv_store:
        raise LaunchError("kv_store: this runtime version starts no LMCache server, and the engine would wait for one; publish a "
                          "profile without kv_store")
    given = {name: value for name, value in environ.items() if not _UNRESOLVED_SECRET.match(value)}
    for secret in manifest.supervisor.secrets:
        if secret.required and not given.get(secret.env):
            raise LaunchError(f"secret {secret.env} is not set ({secret.purpose}); create it at the provider and start a new pod")
    argv, notes = _overridden(manifest, given)
    env = {**given, **manifest.engine.launch.env, **_host_env(given)}
    port = manifest.engine.launch.port
    if manifest.bridge.mode != "off":
        port = manifest.bridge.port
        argv = with_option(with_option(argv, "--host", _ALL_INTERFACES), "--port", str(port))
        notes.append(_without_bridge(manifest, env))
    return LaunchPlan(argv, env, port, (*notes, *_not_in_this_version(manifest)))


def _host_env(environ: Mapping[str, str]) -> dict[str, str]:
    """What the bootstrap found out about this host, which beats what the compiler could know."""
    text = environ.get(HOST_ENV, "{}")
    try:
        found = parsed(text.encode("utf-8", "surrogateescape"))
    except ShapeError as error:
        raise LaunchError(f"{HOST_ENV} {error.problem}; start the pod through its bootstrap") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise LaunchError(f"{HOST_ENV} must be an object of texts; start the pod through its bootstrap")
    return found


def with_option(argv: Sequence[str], option: str, *values: str) -> tuple[str, ...]:
    """`argv` in which `option` has exactly `values`: in its old place, or at the end where it was not given."""
    kept, place = _split_off(argv, option)
    return (*kept[:place], option, *values, *kept[place:])


def _split_off(argv: Sequence[str], option: str) -> tuple[list[str], int]:
    """`argv` without an option, its values and its `--no-` form, and where the first of them stood (else: the end)."""
    spellings = (option, "--no-" + option.removeprefix("--"))
    kept: list[str] = []
    place: int | None = None
    is_skipping = False
    for word in argv:
        if word.startswith("--"):
            is_skipping = word.partition("=")[0] in spellings
            if is_skipping and place is None:
                place = len(kept)
        if not is_skipping:
            kept.append(word)
    return kept, len(kept) if place is None else place


def _overridden(manifest: Manifest, environ: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """The argv with the levers that are set in the environment, and a line for each."""
    argv: tuple[str, ...] = manifest.engine.launch.argv
    notes = []
    for override in manifest.supervisor.overrides:
        value = environ.get(override.name, "")
        if not value:
            continue
        if not re.fullmatch(override.pattern, value):
            raise LaunchError(f"{override.name} does not match {override.pattern}; correct the pod's environment or remove it")
        if override.option is None:
            if override.setting.startswith("runtime."):
                notes.append(f"{override.name} is set, and this runtime version does not honour it")
            continue
        argv = _with_lever(argv, override.option, value)
        notes.append(f"{override.name} is set: {override.option} {value}")
    return argv, notes


def _with_lever(argv: tuple[str, ...], option: str, value: str) -> tuple[str, ...]:
    if value == "on":
        return with_option(argv, option)
    if value == "off":
        kept, place = _split_off(argv, option)
        return (*kept[:place], "--no-" + option.removeprefix("--"), *kept[place:])
    return with_option(argv, option, *value.split(" "))


def _without_bridge(manifest: Manifest, env: dict[str, str]) -> str:
    bridge = manifest.bridge
    if bridge.api_key_env:
        if not env.get(bridge.api_key_env):
            raise LaunchError(f"{bridge.api_key_env} is not set, and the endpoint would be open to everybody; set it and start a new pod")
        env["VLLM_API_KEY"] = env[bridge.api_key_env]
    return (f"bridge mode {bridge.mode} is not part of this runtime version: the engine itself serves port {bridge.port}, with its own "
            "/v1/messages, without pings, effort levels, guard and model swap. A provider's proxy cuts answers that stay silent for 100 s")


def _not_in_this_version(manifest: Manifest) -> list[str]:
    supervisor = manifest.supervisor
    parts = {
        "follow": supervisor.follow is not None, "journal": supervisor.journal is not None, "swap": manifest.swap is not None,
        "compile cache": bool(supervisor.compile_caches),
    }  # fmt: skip
    missing = [name for name, is_wanted in (*parts.items(), ("watchdog", True)) if is_wanted]
    return [f"not part of this runtime version: {', '.join(missing)}"]
