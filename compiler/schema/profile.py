"""`specs/profiles/*.yaml`: one model on one hardware with one engine release, and the choices made."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.schema.base import (
    Bytes,
    Choice,
    Date,
    EngineSettings,
    EnvName,
    HubRepo,
    HubSha,
    Line,
    Port,
    Reasoned,
    Seconds,
    ServedName,
    SettingValue,
    Slug,
    Spec,
    Text,
    Tokens,
)  # fmt: skip
from compiler.schema.engine import ImageRef
from compiler.schema.model import Layers

DataCenter = Annotated[str, Field(pattern=r"^[A-Z]{2,3}-[A-Z]{2,3}-[0-9]$", description="RunPod data center, for instance EU-SE-1.")]


class Draft(Spec):
    """A draft model of speculative decoding."""

    repo: HubRepo = Field(description="Hub repository.")
    revision: HubSha | None = Field(None, description="Commit of the repository.")
    loaded: Bytes | None = Field(None, description="Bytes that it takes on the GPUs, all together.")
    kv: tuple[Layers, ...] = Field((), description="Its layers by kind, for the KV cache; empty where it reads the target's cache or nobody knows.")


class Speculation(Reasoned):
    """Speculative decoding. A property of the model: what wins on one loses on another."""

    method: Literal["off", "mtp", "ngram", "dspark", "dflash", "eagle3"] = Field(description="Method.")
    tokens: Annotated[int, Field(gt=0, le=64)] | None = Field(None, description="Draft tokens for each step.")
    draft: Draft | None = Field(None, description="Draft model, for dspark, dflash and eagle3.")
    lookup_min: Annotated[int, Field(gt=0)] | None = Field(None, description="Shortest n-gram looked up.")
    lookup_max: Annotated[int, Field(gt=0)] | None = Field(None, description="Longest n-gram looked up.")

    @model_validator(mode="after")
    def _lookup_in_order(self) -> Self:
        if self.lookup_min and self.lookup_max and self.lookup_min > self.lookup_max:
            raise ValueError(f"lookup_min {self.lookup_min} is above lookup_max {self.lookup_max}")
        return self


class Images(Reasoned):
    """Image and video input for each request."""

    per_request: Annotated[int, Field(ge=0)] = Field(description="Images in one request.")
    videos_per_request: Annotated[int, Field(ge=0)] = Field(0, description="Videos in one request; they blow the activation budget up.")


class Container(Reasoned):
    """The container image."""

    recipe: Literal["vllm-venv", "vllm-openai", "vllm-cpu"] = Field("vllm-venv", description="`vllm-venv`: CUDA base with the engine in /opt/venv. `vllm-openai`: a thin layer on the official image. `vllm-cpu`: for a machine without GPU.")
    prebaked: bool = Field(True, description="Bake engine, CUDA pieces, extras and runtime. False: the pod starts from the recipe's public base and installs at boot.")
    name: ImageRef | None = Field(None, description="Repository and tag of the built image. Default: podwright/<profile>:<release>, which only a Docker engine on the same machine can run: push it and name it here.")
    extras: tuple[Slug, ...] = Field((), description="Named extras of the engine release.")
    ssh: bool = Field(False, description="Install and start sshd (key login only, port 22/tcp).")


class Bridge(Reasoned):
    """The Anthropic endpoint in front of the engine."""

    mode: Literal["translate", "native", "keepalive", "off"] = Field("translate", description="`translate`: /v1/messages becomes chat completions and back. `native`: the engine's own /v1/messages, mended. `keepalive`: bytes untouched but for pings. `off`: clients reach the engine itself.")
    port: Port = Field(8080, description="Port that clients reach.")
    ping: Seconds = Field(15.0, description="A ping after this much silence; RunPod's proxy cuts a connection that is silent for 100 s.")
    usage_interval: Seconds = Field(0.5, description="A usage update this often while streaming.")
    guard: bool = Field(False, description="Refuse destructive shell commands and truncated whole-file writes in tool calls.")
    require_key: bool = Field(True, description="Ask clients for a key.")


class Watchdog(Reasoned):
    """Probes of a serving engine."""

    probe_interval: Seconds = Field(30.0, description="Without a request and without a sign of life for this long, the engine is asked for a generation.")
    probe_timeout: Seconds = Field(90.0, description="Patience: requests inside, and no counter or gauge of the engine has moved for this long, is a wedge. A prefill moves them with every step, however long it takes as a whole; a single step must be shorter.")
    probe_tokens: Annotated[int, Field(gt=0)] = Field(24, description="Tokens that a probe generates.")
    failures_before_restart: Annotated[int, Field(gt=0)] = Field(2, description="Missed generations in a row, while idle and HTTP answers, that mean a wedge; never fewer than two.")
    grace_probes: Annotated[int, Field(ge=0)] = Field(3, description="First probes after a start that never count.")
    boot_stall: Seconds = Field(1800.0, description="A start that takes longer without loading the model is reported.")
    crash_loop_restarts: Annotated[int, Field(gt=0)] = Field(3, description="Restarts during a start that mean a crash loop.")
    bridge_failures: Annotated[int, Field(gt=0)] = Field(2, description="Failed bridge probes in a row before the bridge alone restarts.")


class Swap(Reasoned):
    """Models that take turns on this profile's hardware, each with the settings of its own profile."""

    members: tuple[Slug, ...] = Field(min_length=1, description="Further profiles on the same hardware; this profile's own model is served first.")
    preload: bool = Field(True, description="Download the others' weights after the first service.")


class CompileCache(Reasoned):
    """Compiled graphs kept between pods."""

    repo: HubRepo = Field(description="Hub dataset that keeps them.")


class Journal(Reasoned):
    """A boot journal that can be read without a shell on the pod."""

    repo: HubRepo = Field(description="Private Hub repository that receives it.")
    boot_period: Seconds = Field(25.0, description="Period while starting.")
    period: Seconds = Field(120.0, description="Period while serving.")


class Publish(Reasoned):
    """What running pods of this profile follow."""

    repo: HubRepo = Field(description="Hub repository that holds the signed publication and what it names.")
    poll: Seconds = Field(30.0, description="How often a pod asks for a change.")
    when: Literal["now", "idle"] = Field("idle", description="When a change that restarts the engine takes effect.")
    unsigned: bool = Field(False, description="Pods also take a publication without a signature: whoever may write to the repository then commands them.")


class Desktop(Reasoned):
    """A remote desktop in the pod, behind noVNC."""

    port: Port = Field(6080, description="noVNC port, exposed as http.")
    password_env: EnvName = Field("VNC_PASSWORD", description="Variable that holds the password; it must be among the secrets.")


class KvStore(Reasoned):
    """An LMCache server beside the engine that keeps evicted KV blocks in host memory."""

    size_gib: Annotated[int, Field(gt=0)] = Field(description="Host memory in GiB.")
    chunk: Tokens = Field(description="Tokens of a chunk; must equal the engine's block.")
    http_port: Port = Field(8080, description="LMCache's HTTP port.")
    zmq_port: Port = Field(5555, description="LMCache's ZMQ port.")


class Secret(Spec):
    """A secret by name. Its value never stands in a spec."""

    env: EnvName = Field(description="Variable that the pod reads.")
    name: Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_.\-/]*$")] | None = Field(None, description="Name of the provider's secret. Default: the variable's name in lower case with dashes.")
    required: bool = Field(True, description="The pod cannot start without it.")
    purpose: Text = Field(description="What it opens.")


class Price(Spec):
    """A price ceiling."""

    usd_per_hour: Annotated[float, Field(gt=0)] = Field(description="USD for the whole pod an hour.")
    reason: Text | None = Field(None, description="Why this ceiling.")


class Cuda(Reasoned):
    """Which host CUDA versions a pod may land on."""

    versions: tuple[Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")], ...] = Field((), description='Exact versions, quoted: ["13.0"].')
    minimum: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")] | None = Field(None, description="A floor instead of exact versions.")


class Deploy(Reasoned):
    """What to rent and within which bounds."""

    clouds: tuple[Literal["SECURE", "COMMUNITY"], ...] = Field(("SECURE",), min_length=1, description="Clouds to try, in order.")
    data_centers: tuple[DataCenter, ...] = Field((), description="Data centers to try, in order; empty means any.")
    price_ceiling: Price | None = Field(None, description="Nothing dearer is rented.")
    max_hours: Annotated[float, Field(gt=0)] | None = Field(None, description="The pod has its own rent ended so many hours after it started; default: never.")
    idle_stop_minutes: Annotated[float, Field(ge=5)] | None = Field(None, description="The pod has its own rent ended when it serves and no request came for so long; default: never.")
    cuda: Cuda = Field(default_factory=lambda: Cuda.model_validate({"versions": ("13.0",)}), description="Host CUDA pin.")
    container_disk_gb: Annotated[int, Field(gt=0)] | None = Field(None, description="Container disk in GB (1e9 bytes). Default: what the plan needs, rounded up.")
    min_ram_gb: Annotated[int, Field(gt=0)] | None = Field(None, description="Host memory in GB. Default: what the model asks for.")
    network_volume: Text | None = Field(None, description="Id of a network volume that holds the Hub cache.")
    registry_auth: Text | None = Field(None, description="Id of the provider's registry credential, for a private image.")


class Client(Reasoned):
    """How clients are pointed at the endpoint."""

    model: ServedName | None = Field(None, description="Name for ANTHROPIC_MODEL. Default: the bare served name, with [1m] at windows of 1,000,000 tokens and more.")
    small_model: ServedName | None = Field(None, description="Name for the small fast model. Default: as `model`.")


class Ignore(Spec):
    """A finding that this profile accepts."""

    rule: Annotated[str, Field(pattern=r"^[A-Z]{2,4}[0-9]{3}$")] = Field(description="Code of the rule.")
    reason: Text = Field(description="Why it is accepted here.")


class Name(Spec):
    """One more served name, with the reason for it."""

    name: ServedName = Field(description="A model name that clients send.")
    reason: Text | None = Field(None, description="Who sends it.")


class Workload(Spec):
    """What the endpoint is for; rules about concurrency ask for it."""

    sessions: Annotated[int, Field(gt=0)] = Field(description="Sessions expected at once.")
    typical_prompt: Tokens | None = Field(None, description="Usual prompt in tokens.")
    uses_images: bool = Field(True, description="Clients send images where the model takes them.")


class ProfileSpec(Spec):
    """One model on one hardware with one engine release, and the choices made."""

    kind: Literal["profile"] = Field(description="Always `profile`.")
    summary: Text = Field(description="One sentence: what it is good for.")
    extends: Slug | None = Field(None, description="Another profile whose keys hold wherever this one says nothing. `settings`, `engine_args`, `env`, `container`, `bridge`, `watchdog`, `deploy` and `client` are merged key by key; everything else is replaced whole; `verified` is never inherited.")
    verified: Date | None = Field(None, description="When this configuration last served.")
    model: Slug | None = Field(None, description="A spec in specs/models.")
    hardware: Slug | None = Field(None, description="A spec in specs/hardware.")
    engine: Slug | None = Field(None, description="A spec in specs/engines.")
    target: Literal["runpod", "docker"] = Field("runpod", description="Where the bundle runs.")
    workload: Workload | None = Field(None, description="What the endpoint is for.")
    settings: EngineSettings = Field(default_factory=lambda: EngineSettings.model_validate({}), description="Engine settings that this profile chooses.")
    engine_args: dict[str, Choice[SettingValue]] = Field(default_factory=dict, description="Further engine options by option name, checked against the release's flag table.")
    env: dict[EnvName, Choice[Line]] = Field(default_factory=dict, description="Environment of the pod. Secrets go under `secrets`.")
    speculation: Speculation | None = Field(None, description="Speculative decoding. Absent: off.")
    images: Images | None = Field(None, description="Image input. Absent: as the model spec says.")
    names: tuple[Name, ...] = Field((), description="Served names before the model's own, first one first.")
    yarn_factor: Choice[Annotated[float, Field(gt=1)]] | None = Field(None, description="YaRN factor; absent: the model's, and only when the window is above native.")
    container: Container = Field(default_factory=lambda: Container.model_validate({}), description="The container image.")
    bridge: Bridge = Field(default_factory=lambda: Bridge.model_validate({}), description="The Anthropic endpoint.")
    watchdog: Watchdog = Field(default_factory=lambda: Watchdog.model_validate({}), description="Probes of a serving engine.")
    swap: Swap | None = Field(None, description="Models that take turns.")
    compile_cache: CompileCache | None = Field(None, description="Compiled graphs kept between pods.")
    journal: Journal | None = Field(None, description="A boot journal outside the pod.")
    publish: Publish | None = Field(None, description="What running pods follow. Absent: a change needs a new pod.")
    desktop: Desktop | None = Field(None, description="A remote desktop.")
    kv_store: KvStore | None = Field(None, description="An LMCache server.")
    engine_port: Port = Field(18081, description="The engine's own port, inside the pod. Never 8081: official RunPod images start an nginx there.")
    secrets: tuple[Secret, ...] = Field((), description="Secrets by name.")
    deploy: Deploy = Field(default_factory=lambda: Deploy.model_validate({}), description="What to rent.")
    client: Client = Field(default_factory=lambda: Client.model_validate({}), description="How clients are pointed at it.")
    ignore: tuple[Ignore, ...] = Field((), description="Findings accepted here, each with its reason.")
    notes: tuple[Text, ...] = Field((), description="What the pod's owner must know.")

    @model_validator(mode="after")
    def _one_secret_for_a_variable(self) -> Self:
        names = [secret.env for secret in self.secrets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"secrets name {', '.join(twice)} more than once; only one could fill the variable")
        return self
