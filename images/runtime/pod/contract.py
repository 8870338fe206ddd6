"""The manifest: what the compiler writes and a running pod reads. Standard library only, for Python 3.10 and later.

A manifest holds no secret, only the names of the variables that carry them. It is signed from outside: the sha256 of the
published file stands in a signed publication (`pod.publication`), so nothing inside has to be left out for signing.

Fields are grouped by what a change of them costs a running pod; `Manifest.changes` names the groups that differ. Fields
declared with `_note` describe and do not act (a size, a reason): a difference in them alone changes nothing.

Longer than other modules on purpose: it is one document, field by field, and a reader of a manifest looks in one place.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from pod.strict_json import ShapeError, decoded, encoded, parsed

SCHEMA_VERSION = 1

Group = Literal["pod", "engine", "supervisor", "bridge"]
BridgeMode = Literal["translate", "native", "keepalive", "off"]


class ManifestError(Exception):
    """A manifest that cannot be used. `route` is where in it, `problem` what is wrong there."""

    def __init__(self, route: str, problem: str) -> None:
        super().__init__(f"{route or 'manifest'}: {problem}")
        self.route = route
        self.problem = problem


class NewerSchemaError(ManifestError):
    """The manifest was written for a later runtime: this one must keep what it has and be replaced."""


_note: Any = functools.partial(dataclasses.field, compare=False)


@dataclasses.dataclass(frozen=True)
class Fetch:
    """A Hub repository whose files must be on disk before the engine starts. `revision` is a commit, or None for its
    default branch; `expected_bytes` is the size on disk that counts as whole, None where nobody knows it."""

    role: Literal["model", "draft", "tokenizer"]
    repo: str
    revision: str | None
    expected_bytes: int | None = _note()


@dataclasses.dataclass(frozen=True)
class ConfigPatch:
    """Values to append, once, to the list at `key_path` inside a JSON file of the downloaded checkpoint."""

    file: str
    key_path: tuple[str, ...]
    append: tuple[str, ...]
    reason: str = _note()


@dataclasses.dataclass(frozen=True)
class ScriptPatch:
    """A script that changes the installed engine: `file` of a Hub `repo`. One without `sha256` must not be run.

    It may run on the engine releases that it names, and on no other. `expects` are the installed files that it changes and
    their sha256 before it did; empty where nobody has written them down.
    """

    file: str
    repo: str
    sha256: str | None
    releases: tuple[str, ...]
    expects: dict[str, str]
    reason: str = _note()


@dataclasses.dataclass(frozen=True)
class Health:
    """Where the engine says that it serves: a path on its own port, and the status that means yes."""

    path: str
    status: int


@dataclasses.dataclass(frozen=True)
class Launch:
    """What a running engine process was started with. Any difference needs a new process."""

    argv: tuple[str, ...]
    env: dict[str, str]
    nccl_conf: dict[str, str]
    host: str
    port: int
    health: Health
    fetch: tuple[Fetch, ...]
    config_patches: tuple[ConfigPatch, ...]
    script_patches: tuple[ScriptPatch, ...]


@dataclasses.dataclass(frozen=True)
class Engine:
    """One model and the engine process that serves it. `name` is its profile; the first served name is the bare one.

    `context_window` is in tokens. `generated` means that the checkpoint is made on the spot and never downloaded.
    """

    name: str
    served_names: tuple[str, ...]
    launch: Launch
    context_window: int
    architecture: str
    reasoning: bool
    multimodal: bool
    gated: bool
    generated: bool


@dataclasses.dataclass(frozen=True)
class Swap:
    """Models that take turns with the manifest's own engine; `preload` downloads their weights after the first service."""

    others: tuple[Engine, ...]
    preload: bool


@dataclasses.dataclass(frozen=True)
class KvStore:
    """An LMCache server that must answer before the engine starts: host memory in GiB, chunk in tokens."""

    argv: tuple[str, ...]
    size_gib: int
    chunk_tokens: int
    zmq_port: int
    http_port: int


@dataclasses.dataclass(frozen=True)
class Bridge:
    """The Anthropic endpoint in front of the engine. Times in seconds, prompts and budgets in tokens (None: no cap).

    `api_key_env` names the variable with the key that clients must send; None lets everybody in.
    """

    mode: BridgeMode
    host: str
    port: int
    ping_s: float
    usage_s: float
    effort_budgets: dict[str, int | None]
    thinking_budget_supported: bool
    api_key_env: str | None
    guard: bool
    max_prompt_tokens: int


@dataclasses.dataclass(frozen=True)
class Watchdog:
    """Probes of a serving engine, in seconds and counts."""

    probe_interval_s: float
    probe_timeout_s: float
    probe_tokens: int
    failures_before_restart: int
    grace_probes: int
    boot_stall_s: float
    crash_loop_restarts: int
    bridge_failures_before_restart: int


@dataclasses.dataclass(frozen=True)
class WarmUp:
    """The generation that proves a start: a raw completion at temperature 0. `expect` must occur in the text that comes
    back; None where the model's weights are made up and any text will do."""

    path: str
    prompt: str
    max_tokens: int
    expect: str | None


@dataclasses.dataclass(frozen=True)
class CompileCache:
    """Where compiled graphs are kept. `key` covers what is known before renting; the runtime adds the driver's major."""

    repo: str
    key: str
    key_parts: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Journal:
    """A journal mirrored to a Hub repository, every so many seconds while booting and while serving."""

    repo: str
    boot_period_s: float
    period_s: float


@dataclasses.dataclass(frozen=True)
class Follow:
    """Where the next manifest is published and how often to ask. `path` is that of the publication, which names the manifest.

    `when` says when a change that restarts the engine may act, unless the publication says otherwise. The variable
    `public_key_env` holds the keys that are trusted, separated by commas. `allow_unsigned` also takes what carries no signature.
    """

    repo: str
    path: str
    poll_s: float
    when: Literal["now", "idle"]
    public_key_env: str
    allow_unsigned: bool


@dataclasses.dataclass(frozen=True)
class Override:
    """An emergency lever: a variable whose whole value must match `pattern` (an extended regular expression).

    `option` is the engine's option that takes the value, its words separated by spaces; `on` and `off` stand for the
    bare option and its `--no-` form. None: the bootstrap or the runtime reads the variable, as `setting` says.
    """

    name: str
    pattern: str
    setting: str
    option: str | None
    effect: str = _note()


@dataclasses.dataclass(frozen=True)
class Secret:
    """A variable that carries a secret, and whether the pod can do without."""

    env: str
    required: bool
    purpose: str = _note()


@dataclasses.dataclass(frozen=True)
class SpendLimits:
    """When the pod ends its own rent: so many seconds after its container started, or without a request; None is never."""

    max_s: float | None
    idle_s: float | None


@dataclasses.dataclass(frozen=True)
class Supervisor:
    """What the runtime itself works by; a change takes effect without touching engine or bridge.

    `compile_caches` is by engine name. `hf_home` and `vllm_cache_root` are absolute paths inside the pod.
    """

    watchdog: Watchdog
    warm_up: WarmUp
    compile_caches: dict[str, CompileCache]
    journal: Journal | None
    follow: Follow | None
    overrides: tuple[Override, ...]
    secrets: tuple[Secret, ...]
    hf_home: str
    vllm_cache_root: str
    spend: SpendLimits


@dataclasses.dataclass(frozen=True)
class Desktop:
    """A remote desktop behind noVNC; the password is in the variable `password_env`."""

    port: int
    password_env: str


@dataclasses.dataclass(frozen=True)
class Pod:
    """What only another pod can change: image, GPUs, disk (1e9 bytes), exposed ports such as `8080/http`, boot phases.

    `venv` is the prefix of the engine's environment, None where the base image decides; `/opt/podwright/engine-python` runs the
    engine's interpreter either way.
    """

    image: str
    recipe: str
    prebaked: bool
    distribution: str
    release: str
    venv: str | None
    gpus: int
    gpu_name: str
    compute_capability: str
    min_driver: int
    disk_gb: int
    ports: tuple[str, ...]
    phases: tuple[str, ...]
    desktop: Desktop | None


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Everything a pod needs to know. `compiler` is the podwright version that wrote it."""

    schema_version: int
    profile: str
    compiler: str
    pod: Pod
    engine: Engine
    swap: Swap | None
    kv_store: KvStore | None
    bridge: Bridge
    supervisor: Supervisor

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists and scalars in the order of the fields; mappings sorted by key."""
        return cast("dict[str, Any]", encoded(self))

    @classmethod
    def from_json(cls, data: object) -> Manifest:
        """The manifest in parsed JSON. Unknown, missing and mistyped fields raise ManifestError, which names the route;
        a later schema raises NewerSchemaError before anything else is looked at."""
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
            raise NewerSchemaError("schema_version", f"is {version}; this runtime reads up to {SCHEMA_VERSION}")
        try:
            manifest = decoded(cls, data)
        except ShapeError as error:
            raise ManifestError(error.route, error.problem) from None
        for route, problem in _inconsistencies(manifest):
            raise ManifestError(route, problem)
        return manifest

    @classmethod
    def from_bytes(cls, text: bytes) -> Manifest:
        """The manifest in a file's bytes: UTF-8 JSON without repeated keys. Raises ManifestError as `from_json` does."""
        try:
            data = parsed(text)
        except ShapeError as error:
            raise ManifestError(error.route, error.problem) from None
        return cls.from_json(data)

    def canonical_bytes(self) -> bytes:
        """The one spelling that is hashed: keys sorted, no spaces, UTF-8."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def sha256(self) -> str:
        """Hexadecimal sha256 of `canonical_bytes`."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    def changes(self, new: Manifest) -> tuple[Group, ...]:
        """Groups in which `new` differs, the dearest first; empty when `new` can be taken over without doing anything.

        `pod` cannot be followed in place. `engine` restarts the engine. `supervisor` makes the runtime re-read its
        settings. `bridge` restarts the bridge, which also knows the served names and windows of all engines.
        """
        facts = [dataclasses.replace(m.engine, launch=self.engine.launch) for m in (self, new)]
        differs: dict[Group, bool] = {
            "pod": self.pod != new.pod,
            "engine": (self.engine.launch, self.kv_store) != (new.engine.launch, new.kv_store),
            "supervisor": (self.supervisor, self.swap, self.profile, facts[0]) != (new.supervisor, new.swap, new.profile, facts[1]),
            "bridge": (self.bridge, _bridge_view(self)) != (new.bridge, _bridge_view(new)),
        }
        return tuple(group for group, is_different in differs.items() if is_different)


def _bridge_view(manifest: Manifest) -> list[tuple[object, ...]]:
    others = manifest.swap.others if manifest.swap else ()
    return [(e.name, e.served_names, e.context_window, e.reasoning, e.multimodal, e.launch.host, e.launch.port)
            for e in (manifest.engine, *others)]


_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def _inconsistencies(manifest: Manifest) -> Iterator[tuple[str, str]]:
    engines = [("engine", manifest.engine)]
    engines += [(f"swap.others[{i}]", e) for i, e in enumerate(manifest.swap.others if manifest.swap else ())]
    if manifest.schema_version < 1:
        yield "schema_version", f"is {manifest.schema_version}; the first one is 1"
    for route, engine in engines:
        yield from _engine_inconsistencies(route, engine)
    names = [engine.name for _, engine in engines]
    if len(set(names)) != len(names):
        yield "swap.others", f"two engines share a name: {sorted(n for n in names if names.count(n) > 1)[0]}"
    for cache in manifest.supervisor.compile_caches:
        if cache not in names:
            yield f"supervisor.compile_caches.{cache}", "belongs to no engine of this manifest"
    for name, limit in (("max_s", manifest.supervisor.spend.max_s), ("idle_s", manifest.supervisor.spend.idle_s)):
        if limit is not None and not limit > 0:
            yield f"supervisor.spend.{name}", f"is {limit:g}; the pod would end its rent at once"
    if not 0 < manifest.bridge.port < 65536:
        yield "bridge.port", f"is {manifest.bridge.port}, which is no TCP port"
    if manifest.bridge.mode != "off" and manifest.bridge.port == manifest.engine.launch.port:
        yield "bridge.port", f"is {manifest.bridge.port}, and the engine listens there already"
    for i, override in enumerate(manifest.supervisor.overrides):
        if not _compiles(override.pattern):
            yield f"supervisor.overrides[{i}].pattern", f"is no regular expression: {override.pattern!r}"


def _engine_inconsistencies(route: str, engine: Engine) -> Iterator[tuple[str, str]]:
    launch = engine.launch
    if not launch.argv or not launch.argv[0]:
        yield f"{route}.launch.argv", "names no program"
    if not engine.served_names:
        yield f"{route}.served_names", "is empty; clients could ask for nothing"
    if not 0 < launch.port < 65536:
        yield f"{route}.launch.port", f"is {launch.port}, which is no TCP port"
    for key in launch.env:
        if not _ENV_NAME.match(key):
            yield f"{route}.launch.env.{key}", "is no name for an environment variable"


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
