"""From a manifest and this pod's environment to the engine's command line. Pure: nothing is started or read here."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path

from pod.contract import Engine, Manifest
from pod.strict_json import ShapeError, parsed

# The bootstrap hands its findings on in this variable, as a JSON object of names and values.
HOST_ENV = "PODWRIGHT_HOST_ENV"
# The folder below which everything of the image lies, where that is not "/": the bootstrap's own variable.
ROOT_ENV = "PODWRIGHT_ROOT"
_IMAGE_FOLDER = "/opt/podwright/"
# RunPod leaves the reference in place when the account holds no secret of that name.
_UNRESOLVED_SECRET = re.compile(r"\{\{\s*RUNPOD_SECRET_")
# What the runtime needs and an engine, which runs a checkpoint's code, does not; and what belongs to another process.
_NOT_FOR_ENGINES = frozenset(("RUNPOD_API_KEY", HOST_ENV, "LISTEN_FDS", "LISTEN_PID", "PODWRIGHT_CHILD", "PODWRIGHT_STATE_PROBLEM", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
# The secrets that engines themselves read.
_FOR_ENGINES = frozenset(("HF_TOKEN",))
_OWN_FOLDER = str(Path(__file__).resolve().parents[1])


class LaunchError(Exception):
    """The manifest is sound, and the engine cannot be started in this pod: a secret is missing or the host's facts are broken.

    `kind` is `secret` or `host`; `fix` says what to do.
    """

    def __init__(self, kind: str, cause: str, fix: str) -> None:
        super().__init__(f"{cause}; {fix}")
        self.kind, self.cause, self.fix = kind, cause, fix


@dataclasses.dataclass(frozen=True)
class LaunchPlan:
    """What will be started, with which complete environment, and where it listens."""

    argv: tuple[str, ...]
    env: dict[str, str]
    port: int


def launch_plan(manifest: Manifest, engine: Engine, environ: Mapping[str, str]) -> LaunchPlan:
    """The start of one engine of a manifest as `pod.levers` leaves it. Raises LaunchError where it would not serve what is promised."""
    given = resolved(environ)
    check_secrets(manifest, given)
    secret = ({s.env for s in manifest.supervisor.secrets} | {manifest.bridge.api_key_env}) - _FOR_ENGINES
    env = {name: value for name, value in given.items() if name not in _NOT_FOR_ENGINES and name not in secret}
    env |= {**engine.launch.env, **host_env(given)}
    if _OWN_FOLDER in env.get("PYTHONPATH", ""):
        env = {**env, "PYTHONPATH": os.pathsep.join(p for p in env["PYTHONPATH"].split(os.pathsep) if p and p != _OWN_FOLDER)}
        env = env if env["PYTHONPATH"] else {name: value for name, value in env.items() if name != "PYTHONPATH"}
    if manifest.bridge.mode == "off" and manifest.bridge.api_key_env:
        env["VLLM_API_KEY"] = given[manifest.bridge.api_key_env]
    return LaunchPlan(rooted(engine.launch.argv, given), env, engine.launch.port)


def rooted(argv: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, ...]:
    """A command line with the image's own files where they lie here: below PODWRIGHT_ROOT, as for the bootstrap."""
    root = environ.get(ROOT_ENV, "")
    return tuple(root + word if word.startswith(_IMAGE_FOLDER) else word for word in argv)


def resolved(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without references to secrets that the provider did not fill in."""
    return {name: value for name, value in environ.items() if not _UNRESOLVED_SECRET.match(value)}


def check_secrets(manifest: Manifest, given: Mapping[str, str]) -> None:
    """Raises LaunchError for a secret that must be set and is not, or whose absence would leave the endpoint open."""
    for secret in manifest.supervisor.secrets:
        if secret.required and not given.get(secret.env, "").strip():
            raise LaunchError("secret", f"secret {secret.env} is not set ({secret.purpose})", "create it at the provider and start a new pod")
    key = manifest.bridge.api_key_env
    if key and not given.get(key, "").strip():
        raise LaunchError("secret", f"{key} is not set, and the endpoint would be open to everybody", "set it and start a new pod")


def host_env(environ: Mapping[str, str]) -> dict[str, str]:
    """What the bootstrap found out about this host, which beats what the compiler could know. Raises LaunchError when it is broken."""
    text = environ.get(HOST_ENV, "{}")
    fix = "start the pod through its bootstrap"
    try:
        found = parsed(text.encode("utf-8", "surrogateescape"))
    except ShapeError as error:
        raise LaunchError("host", f"{HOST_ENV} {error.problem}", fix) from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise LaunchError("host", f"{HOST_ENV} must be an object of texts", fix)
    return found
