"""`specs/hardware/*.yaml`: facts about one set-up of GPUs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.schema.base import (
    Bytes,
    Choice,
    ComputeCapability,
    Date,
    EngineSettings,
    EnvName,
    EvidenceId,
    Line,
    SettingValue,
    Slug,
    Spec,
    Text,
)


class Gpu(Spec):
    """One GPU of the set-up."""

    name: Text = Field(description="Name as the driver reports it, for instance `NVIDIA A40`.")
    runpod_ids: tuple[Text, ...] = Field((), description="RunPod GPU ids, exact strings, the preferred first.")
    architecture: Literal["turing", "ampere", "ada", "hopper", "blackwell", "cpu"] = Field(description="Architecture.")
    compute_capability: ComputeCapability = Field(description="CUDA compute capability.")
    vram_mib: Annotated[int, Field(gt=0)] = Field(description="Memory in MiB (2^20 bytes) as nvidia-smi shows it.")
    cuda_total: Bytes | None = Field(None, description="Memory as CUDA reports it, in bytes, where it was read.")
    bandwidth_gb_s: Annotated[float, Field(gt=0)] | None = Field(None, description="Memory bandwidth in 1e9 bytes a second.")
    source: Text | None = Field(None, description="Where these facts were read.")


class Interconnect(Spec):
    """How the GPUs of one host reach each other."""

    kind: Literal["none", "pcie", "nvlink"] = Field(description="Link between the GPUs.")
    peer_to_peer: bool = Field(description="GPUs can read each other's memory directly.")
    numa_nodes: Annotated[int, Field(gt=0)] = Field(1, description="NUMA nodes that the GPUs sit on.")
    topology: Literal["SYS", "NODE", "PHB", "PXB", "PIX", "NV"] | None = Field(None, description="As `nvidia-smi topo -m` shows it.")
    note: Text | None = Field(None, description="What a reader must know.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class Host(Spec):
    """The machine around the GPUs."""

    kind: Literal["rented", "owned-linux", "wsl2"] = Field(description="Who owns it and what it runs.")
    min_driver: Annotated[int, Field(gt=0)] = Field(580, description="Lowest NVIDIA driver major that runs the engine's CUDA without cuda-compat.")
    drives_display: bool = Field(False, description="A desktop shares the first GPU, so its free memory moves.")
    reserved: Bytes | None = Field(None, description="GPU memory that others hold on each card (desktop, WSL2).")
    ram: Bytes | None = Field(None, description="Host memory, where it is known.")
    pinned_memory: bool = Field(True, description="The host can pin memory; WSL2 cannot unless told.")


class Price(Spec):
    """A price for the whole set-up."""

    usd_per_hour: Annotated[float, Field(ge=0)] = Field(description="USD for all GPUs an hour.")
    date: Date = Field(description="When it was read.")
    cloud: Literal["SECURE", "COMMUNITY"] = Field("SECURE", description="RunPod cloud.")
    source: Text | None = Field(None, description="Where it was read.")


Efficiency = Annotated[float, Field(gt=0, le=1)]
Spread = Annotated[float, Field(ge=0, lt=1)]


class SoloSpeed(Spec):
    """One session decoding at a short prompt, without speculation."""

    efficiency: Efficiency = Field(
        description="Bytes that the model's spec says a token reads, over the time of a token, as a share of all GPUs' bandwidth."
    )
    spread: Spread = Field(description="Largest relative distance of a record from the rate that follows.")
    evidence: tuple[EvidenceId, ...] = Field(min_length=1, description="The records that it was fitted on, as topic/id.")


class BatchSpeed(Spec):
    """Several sessions decoding together at short prompts, without speculation."""

    efficiency: Efficiency = Field(
        description="Share of the bandwidth at which further weights are read; a mixture reads more experts for more tokens."
    )
    step_ms: Annotated[float, Field(ge=0)] = Field(description="Milliseconds of a step that no weights explain.")
    sessions: Annotated[int, Field(gt=1)] = Field(description="Most sessions in the records; beyond them nothing is expected.")
    spread: Spread = Field(description="Largest relative distance of a record from the rate that follows.")
    evidence: tuple[EvidenceId, ...] = Field(min_length=2, description="The records that it was fitted on, as topic/id.")


class PrefillSpeed(Spec):
    """One prompt alone, nothing of it cached."""

    us_per_token: Annotated[float, Field(gt=0)] = Field(description="Microseconds for a token of a short prompt.")
    us_per_token_each_1k: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="Microseconds more for a token with each 1,000 tokens of the prompt; absent where the lengths are not known.",
    )
    spread: Spread = Field(description="Largest relative distance of a record from the rate that follows.")
    evidence: tuple[EvidenceId, ...] = Field(min_length=1, description="The records that it was fitted on, as topic/id.")


class ModelSpeed(Spec):
    """How fast one model ran on this hardware."""

    model: Slug = Field(description="The model's spec, whose bytes read per token the efficiencies are about.")
    solo: SoloSpeed = Field(description="One session.")
    batch: BatchSpeed | None = Field(None, description="Several sessions.")
    prefill: PrefillSpeed | None = Field(None, description="Reading a prompt.")


class ModelStart(Spec):
    """A start of one model on this hardware whose log said how much cache there was; it calibrates plans of the same pair."""

    model: Slug = Field(description="The model's spec.")
    kv_gib: Annotated[float, Field(gt=0)] | None = Field(None, description="GiB (2^30 bytes) that the engine had for its cache on one GPU.")
    kv_tokens: Annotated[int, Field(gt=0)] | None = Field(None, description="Tokens of cache that the engine printed, where the log says only those.")
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Engine settings in force then, by option name; null for one that was not set. Others count as the profile's."
    )
    evidence: EvidenceId = Field(description="The record that the figure stands in, as topic/id.")

    @model_validator(mode="after")
    def _one_figure(self) -> Self:
        if (self.kv_gib is None) == (self.kv_tokens is None):
            raise ValueError("say `kv_gib` or `kv_tokens`, and only one of them")
        return self


class HardwareSpec(Spec):
    """One set-up of GPUs: what it has, what it forces, what it costs."""

    kind: Literal["hardware"] = Field(description="Always `hardware`.")
    summary: Text = Field(description="One sentence: what it is.")
    gpu: Gpu = Field(description="One GPU of the set-up.")
    count: Annotated[int, Field(gt=0)] = Field(description="GPUs.")
    interconnect: Interconnect = Field(description="How they reach each other.")
    host: Host = Field(description="The machine around them.")
    env: dict[EnvName, Choice[Line]] = Field(default_factory=dict, description="Environment that this hardware forces.")
    nccl_conf: bool = Field(False, description="Write the NCCL_* variables to ~/.nccl.conf too: worker processes do not inherit them.")
    engine: EngineSettings = Field(default_factory=lambda: EngineSettings.model_validate({}), description="Engine settings that this hardware forces.")
    speed: tuple[ModelSpeed, ...] = Field((), description="What was measured of decoding and prefill, by model; plans expect it.")
    starts: tuple[ModelStart, ...] = Field((), description="Measured starts, by model; the nearest one calibrates a plan.")
    prices: tuple[Price, ...] = Field((), description="Dated prices, the latest last.")
    notes: tuple[Text, ...] = Field((), description="Lessons that a reader must know.")
