"""What all specs share: strictness, quantities, and choices that carry their reason."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from compiler import units

T = TypeVar("T")


class Spec(BaseModel):
    """A strict, immutable piece of a spec: unknown keys are refused and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True, hide_input_in_errors=True)


def _quantity(example: str, suffixes: str, description: str) -> Any:
    """The JSON Schema of a quantity: a number, or text of digits and one of `suffixes` (a regular expression)."""
    pattern = rf"^\s*[0-9]+(\.[0-9]+)?\s*({suffixes})?\s*$"
    return WithJsonSchema({"type": ["number", "string"], "pattern": pattern, "description": description, "examples": [example]})


Bytes: TypeAlias = Annotated[int, BeforeValidator(units.size_bytes), Field(gt=0), _quantity("80GiB", "(k|K|M|G|T|Ki|Mi|Gi|Ti)?B", "Bytes, or a number with kB/MB/GB/TB (powers of ten) or KiB/MiB/GiB/TiB (powers of two).")]
Tokens: TypeAlias = Annotated[int, BeforeValidator(units.token_count), Field(gt=0), _quantity("256Ki", "k|K|M|G|T|Ki|Mi|Gi|Ti", "Tokens, or a number with k/M (powers of ten) or Ki/Mi (powers of two).")]
Seconds: TypeAlias = Annotated[float, BeforeValidator(units.duration_seconds), Field(gt=0), _quantity("30s", "ms|s|min|m|h|d", "Seconds, or a number with ms, s, min, h or d.")]

Slug: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", description="Lower-case name: letters, digits, dot, dash.")]
HubRepo: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$", description="Hugging Face repository as owner/name.")]
HubSha: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$", description="A commit of a Hub repository: 40 hexadecimal digits.")]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="A sha256 as 64 hexadecimal digits.")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", description="An image digest, sha256: and 64 hexadecimal digits.")]
EvidenceId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9-]+/[A-Za-z0-9._-]+$", description="A measurement in specs/evidence, as topic/id.")]
EnvName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of an environment variable.")]
Date: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$", description="YYYY-MM-DD, or YYYY-MM where the day is not known. Quote it.")]
ComputeCapability: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$", description='CUDA compute capability, quoted: "8.9".')]
Version: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*([A-Za-z0-9.+-]*)$", description='A version, quoted: "0.27.1".')]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535, description="A TCP port.")]
Text: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
Line: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", description="Text on one line.")]
ServedName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*(\[1m\])?$", description="A model name that clients send.")]

def _without_control_characters(value: Any) -> Any:
    """`value`, unless a text in it, at any depth, holds what no argv, environment or terminal takes."""
    if isinstance(value, str) and not _CLEAN(value):
        raise ValueError("control characters belong nowhere in a setting")
    for inner in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        _without_control_characters(inner)
    return value


_CLEAN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*").fullmatch
ScalarValue: TypeAlias = str | int | float | bool | None
SettingValue: TypeAlias = Annotated[ScalarValue | tuple[Any, ...] | dict[str, Any], AfterValidator(_without_control_characters)]
SettingMap: TypeAlias = Annotated[dict[str, ScalarValue], AfterValidator(_without_control_characters)]


class Choice(Spec, Generic[T]):
    """A value that somebody chose, with the reason and the measurements that it rests on.

    A bare value is the short form of `{value: ...}`; a choice that departs from the engine's default needs its reason.
    """

    value: T = Field(description="The chosen value.")
    reason: Text | None = Field(None, description="Why this value, in a sentence.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements that the choice rests on, as topic/id.")

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_value(cls, data: Any) -> Any:
        is_long_form = isinstance(data, dict) and "value" in data
        return data if is_long_form or isinstance(data, Choice) else {"value": data}


class Reasoned(Spec):
    """A group of keys that is one choice: its reason and evidence stand beside the keys."""

    reason: Text | None = Field(None, description="Why, in a sentence.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements that the choice rests on, as topic/id.")


class EngineSettings(Spec):
    """Engine settings that podwright understands. Names are the engine's own option names with underscores.

    Absent means: not decided here. Settings that are not listed go into `engine_args`, which the flag table checks too.
    """

    max_model_len: Choice[Tokens | Literal["auto"]] | None = Field(None, description="Context window served, in tokens; `auto` takes the largest tier that the KV cache holds.")
    max_num_seqs: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="Sequences decoded at once.")
    max_num_batched_tokens: Choice[Tokens] | None = Field(None, description="Tokens in one scheduling step; the width of a prefill slice.")
    gpu_memory_utilization: Choice[Annotated[float, Field(gt=0, le=1)]] | None = Field(None, description="Share of the card's memory that the engine may plan with.")
    kv_cache_dtype: Choice[Line] | None = Field(None, description="Data type of the KV cache, as the release names it; `auto` follows the checkpoint.")
    kv_cache_memory_bytes: Choice[Bytes] | None = Field(None, description="A fixed KV cache for each GPU; the engine then skips its own accounting.")
    block_size: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="Tokens in a KV cache block.")
    tensor_parallel_size: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="GPUs that share each layer; default: all GPUs of the hardware.")
    data_parallel_size: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="Replicas of the model; above 1, tensor parallel becomes the GPUs left for each.")
    pipeline_parallel_size: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="Stages of layers over GPUs.")
    enable_expert_parallel: Choice[bool] | None = Field(None, description="Spread experts over GPUs instead of splitting each.")
    distributed_executor_backend: Choice[Line] | None = Field(None, description="How workers are started, for instance `mp`.")
    disable_custom_all_reduce: Choice[bool] | None = Field(None, description="Leave all-reduce to NCCL; needed where GPUs cannot reach each other directly.")
    enable_prefix_caching: Choice[bool] | None = Field(None, description="Keep computed prefixes.")
    prefix_match_unit: Choice[Annotated[int, Field(gt=0)]] | None = Field(None, description="Tokens by which prefixes are matched on hybrid models.")
    async_scheduling: Choice[bool] | None = Field(None, description="Prepare the next step while the GPU works.")
    mamba_cache_mode: Choice[Literal["none", "align", "all"]] | None = Field(None, description="Which states of state-space layers the prefix cache keeps.")
    mamba_backend: Choice[Line] | None = Field(None, description="Kernels of the state-space layers.")
    mamba_ssm_cache_dtype: Choice[Line] | None = Field(None, description="Data type of the recurrent state.")
    moe_backend: Choice[Line] | None = Field(None, description="Kernels of the routed experts.")
    linear_backend: Choice[Line] | None = Field(None, description="Kernels of quantized dense layers.")
    attention_backend: Choice[Line] | None = Field(None, description="Attention kernels; unset lets the engine choose.")
    optimization_level: Choice[Annotated[int, Field(ge=0, le=3)]] | None = Field(None, description="Compilation effort.")
    enforce_eager: Choice[bool] | None = Field(None, description="No CUDA graphs and no compilation.")
    long_prefill_token_threshold: Choice[Tokens] | None = Field(None, description="Prompts above this many tokens count as long.")
    kv_offloading_size: Choice[Annotated[float, Field(gt=0)]] | None = Field(None, description="Host memory for evicted KV blocks, in GiB.")
    tool_call_parser: Choice[Line] | None = Field(None, description="Parser of the model's tool-call markup.")
    reasoning_parser: Choice[Line] | None = Field(None, description="Parser of the model's reasoning markup.")
    enable_auto_tool_choice: Choice[bool] | None = Field(None, description="Let the model decide to call tools.")
    enable_prompt_tokens_details: Choice[bool] | None = Field(None, description="Report cached prompt tokens in usage.")
    trust_remote_code: Choice[bool] | None = Field(None, description="Run Python code that the checkpoint ships.")
    language_model_only: Choice[bool] | None = Field(None, description="Leave the vision tower out.")
    load_format: Choice[Line] | None = Field(None, description="How weights are loaded; `dummy` makes them up.")
    dtype: Choice[Line] | None = Field(None, description="Activation data type.")
    quantization: Choice[Line] | None = Field(None, description="Force a quantization method; unset reads the checkpoint.")
