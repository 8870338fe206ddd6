"""`specs/models/*.yaml`: facts about one checkpoint."""

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
    HubRepo,
    HubSha,
    Line,
    Reasoned,
    ScalarValue,
    ServedName,
    SettingMap,
    SettingValue,
    Sha256,
    Spec,
    Text,
    Tokens,
    Version,
)  # fmt: skip


class Checkpoint(Spec):
    """Where the weights come from."""

    repo: HubRepo | None = Field(None, description="Hub repository as owner/name.")
    revision: HubSha | None = Field(None, description="Commit of the repository. Absent is a finding; `podwright lock` resolves it.")
    published: Date | None = Field(None, description="When the checkpoint was published.")
    license: Text | None = Field(None, description="Licence as its publisher states it.")
    gated: bool = Field(False, description="The Hub asks for an accepted licence and a token.")
    download: Bytes = Field(description="Size of the files to download, in bytes.")
    generated: bool = Field(False, description="No weights exist: config and tokenizer are made in the pod and weights are dummies.")
    folder: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]+$")] | None = Field(None, description="Folder inside the container with weights that the owner of the machine mounts there, instead of a Hub repository.")
    source: Text | None = Field(None, description="Where these facts were read.")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.repo is not None) + self.generated + (self.folder is not None) != 1:
            raise ValueError("say where the weights come from, in one way: `repo`, `folder`, or `generated: true`")
        return self


class QuantizedPart(Spec):
    """One part of the network and how its weights are stored and read."""

    part: Literal["routed-experts", "shared-experts", "attention", "linear-attention", "mamba", "dense-mlp", "lm-head", "embeddings", "vision", "mtp", "ngram-embedding", "rest"] = Field(description="Part of the network.")
    weights: Literal["int4", "int8", "fp8", "nvfp4", "mxfp4", "bf16", "fp16", "fp32"] = Field(description="Stored weight format.")
    activations: Literal["16-bit", "fp8", "fp4", "int8"] = Field("16-bit", description="Format of the activations in the product.")
    bytes_read_per_token: Annotated[int, Field(ge=0)] | None = Field(None, description="Bytes of this part read for each decoded token.")


class KernelChoice(Spec):
    """The kernel that a quantization resolves to from one compute capability on."""

    min_compute_capability: ComputeCapability = Field(description="From this compute capability on, until the next row.")
    kernel: Text = Field(description="Kernel or scheme that the engine picks.")
    effective: Literal["W4A16", "W4A8", "W4A4", "W8A16", "W8A8", "W16A16"] = Field(description="Bits of weights and activations as computed there.")


class Quantization(Spec):
    """How the checkpoint is quantized. Judge it by the bytes read for each token, not by its name."""

    scheme: Literal["none", "awq-int4", "gptq-int4", "fp8", "nvfp4", "mxfp4", "bitsandbytes-nf4", "int8"] = Field(description="Scheme of the quantized weights.")
    activations: Literal["W4A16", "W4A8", "W4A4", "W8A8", "W8A16", "W16A16"] = Field(description="Bits of weights and activations that the checkpoint was made for.")
    method: Text | None = Field(None, description="The engine's quantization method, as in the checkpoint's config.")
    min_compute_capability: ComputeCapability = Field(description="Lowest compute capability with a kernel for it.")
    block: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] | None = Field(None, description="Rows and columns of weights that share one scale, as `weight_block_size` in the checkpoint's config; null for scales of another shape.")
    kernels: tuple[KernelChoice, ...] = Field((), description="Kernel on each compute capability, lowest first.")
    parts: tuple[QuantizedPart, ...] = Field((), description="Per part: stored format and bytes read for each token.")
    kv_cache_scheme: Literal["fp8", "nvfp4"] | None = Field(None, description="KV cache type that the checkpoint's config imposes when the engine's setting is `auto`.")
    mtp_in_ignore_list: bool | None = Field(None, description="The quantization's ignore list names the MTP head; null where there is none.")
    note: Text | None = Field(None, description="What a reader must know.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class Weights(Spec):
    """Bytes on the GPU."""

    loaded: Bytes = Field(description="Bytes of weights on all GPUs together, vision tower and embeddings included, MTP head excluded.")
    parameters: Annotated[int, Field(gt=0)] | None = Field(None, description="Parameters of what is loaded; checked against its bytes.")
    offloaded: Bytes | None = Field(None, description="Bytes of `loaded` that an offload keeps in host memory.")
    mtp: Bytes | None = Field(None, description="Bytes that the MTP head adds when it is used.")
    vision: Bytes | None = Field(None, description="Bytes of `loaded` that belong to the vision tower.")
    replicated: Bytes | None = Field(None, description="Bytes of `loaded` that every tensor-parallel rank holds whole.")
    experts: Bytes | None = Field(None, description="Bytes of `loaded` that belong to routed experts; expert parallelism spreads them.")
    per_gpu: Bytes | None = Field(None, description="Bytes on one GPU as the engine printed them (`Model loading took`), draft head included; replaces the computation.")
    source: Text | None = Field(None, description="Where the sizes were read.")


class AttentionLayers(Spec):
    """Layers with a KV cache that grows with the context (within a window, where there is one)."""

    kind: Literal["full", "sliding", "chunked"] = Field(description="Which past tokens a layer sees.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    kv_heads: Annotated[int, Field(gt=0)] = Field(description="Key/value heads.")
    head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a key head.")
    value_head_dim: Annotated[int, Field(gt=0)] | None = Field(None, description="Width of a value head, where it differs.")
    window: Tokens | None = Field(None, description="Window or chunk in tokens, for sliding and chunked layers.")

    @model_validator(mode="after")
    def _window_where_one_is(self) -> AttentionLayers:
        if (self.window is None) != (self.kind == "full"):
            raise ValueError("`window` belongs to sliding and chunked layers, and they need it")
        return self


class LatentLayers(Spec):
    """Multi-head latent attention (MLA)."""

    kind: Literal["mla", "mla-ds"] = Field(description="`mla-ds` is sparse attention as DeepSeek V3.2's: fp8 latents are packed in 656 bytes where the card's kernel reads them so.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    kv_lora_rank: Annotated[int, Field(gt=0)] = Field(description="Width of the latent.")
    rope_dim: Annotated[int, Field(ge=0)] = Field(description="Width of the rotary part.")


class GatedDeltaLayers(Spec):
    """Gated DeltaNet layers: a state of fixed size."""

    kind: Literal["gdn"] = Field(description="Gated DeltaNet.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    key_heads: Annotated[int, Field(gt=0)] = Field(description="Key heads.")
    value_heads: Annotated[int, Field(gt=0)] = Field(description="Value heads.")
    key_head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a key head.")
    value_head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a value head.")
    conv_kernel: Annotated[int, Field(gt=0)] = Field(4, description="Width of the short convolution.")
    state_dtype: Literal["float32", "float16", "bfloat16"] = Field("float32", description="State type of the checkpoint's config.")


class MambaLayers(Spec):
    """Mamba-2 layers: a state of fixed size."""

    kind: Literal["mamba2"] = Field(description="Mamba-2.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    heads: Annotated[int, Field(gt=0)] = Field(description="State heads.")
    head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a head.")
    groups: Annotated[int, Field(gt=0)] = Field(description="Groups of B and C.")
    state_dim: Annotated[int, Field(gt=0)] = Field(description="State width.")
    conv_kernel: Annotated[int, Field(gt=0)] = Field(4, description="Width of the short convolution.")
    chunk: Annotated[int, Field(gt=0)] = Field(256, description="Tokens of a scan chunk.")
    state_dtype: Literal["float32", "float16", "bfloat16"] = Field("float32", description="State type of the checkpoint's config.")


class KimiDeltaLayers(Spec):
    """Kimi Delta Attention layers: a state of fixed size."""

    kind: Literal["kda"] = Field(description="Kimi Delta Attention.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    heads: Annotated[int, Field(gt=0)] = Field(description="Heads.")
    head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a head.")
    conv_kernel: Annotated[int, Field(gt=0)] = Field(4, description="Width of the short convolution.")


class CompressedLayers(Spec):
    """DeepSeek-V4's layers: a window of latents, and one latent for every few tokens of the whole past."""

    kind: Literal["compressed"] = Field(description="A window, and compressed latents behind it.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such layers.")
    head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a latent.")
    window: Tokens = Field(description="Window in tokens.")
    ratio: Annotated[int, Field(ge=0)] = Field(0, description="Tokens that one compressed latent stands for; 0 for a window alone.")
    index_head_dim: Annotated[int, Field(gt=0)] | None = Field(None, description="Width of an indexer's key, where the layer has one.")


class IndexerLayers(Spec):
    """Indexers of sparse attention: a key for every few tokens, beside the attention of the same layers."""

    kind: Literal["indexer"] = Field(description="Keys that choose which past tokens a layer reads.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of layers with an indexer of their own.")
    head_dim: Annotated[int, Field(gt=0)] = Field(description="Width of a key.")
    ratio: Annotated[int, Field(gt=0)] = Field(1, description="Tokens that one key stands for.")
    dtype: Literal["fp8", "bfloat16"] = Field("fp8", description="How a key is kept; fp8 with its scale.")


class ConvolutionLayers(Spec):
    """Short convolutions: the last few rows, of fixed size."""

    kind: Literal["conv"] = Field(description="A short convolution.")
    layers: Annotated[int, Field(gt=0)] = Field(description="Number of such states.")
    width: Annotated[int, Field(gt=0)] = Field(description="Channels.")
    conv_kernel: Annotated[int, Field(gt=1)] = Field(description="Tokens that a result depends on, dilation included.")
    replicated: bool = Field(False, description="Every tensor-parallel rank keeps all channels.")


Layers = Annotated[
    AttentionLayers | LatentLayers | GatedDeltaLayers | MambaLayers | KimiDeltaLayers | CompressedLayers | IndexerLayers | ConvolutionLayers,
    Field(discriminator="kind"),
]


class MeasuredKv(Spec):
    """A KV cache known from a measured pair, for families whose layout has no closed form."""

    bytes_per_token: Annotated[int, Field(gt=0)] = Field(description="Bytes of cache for each token on one GPU.")
    fixed: Bytes | None = Field(None, description="Bytes that a request takes whatever its length.")
    mtp_fixed: Bytes | None = Field(None, description="Bytes that a request takes besides when the model's own MTP head drafts.")
    block: Annotated[int, Field(gt=0)] = Field(description="Tokens of a block.")
    evidence: EvidenceId = Field(description="The measurement.")


class Architecture(Spec):
    """The network as its config.json states it."""

    name: Text = Field(description="First entry of `architectures` in config.json.")
    model_type: Text = Field(description="`model_type` of config.json.")
    family: Text = Field(description="Family that rules speak of, for instance `qwen3.5`.")
    layers: Annotated[int, Field(gt=0)] | None = Field(None, description="Hidden layers.")
    hidden: Annotated[int, Field(gt=0)] | None = Field(None, description="Hidden width.")
    intermediate: Annotated[int, Field(gt=0)] | None = Field(None, description="Inner width of a dense MLP layer; sets the activation peak of a wide batch.")
    vocab: Annotated[int, Field(gt=0)] = Field(description="Vocabulary size.")
    attention_heads: Annotated[int, Field(gt=0)] | None = Field(None, description="Query heads; tensor parallel must divide them.")
    indivisible: tuple[Annotated[int, Field(gt=0)], ...] = Field((), description="Further inner widths that tensor parallel must divide.")
    experts: Annotated[int, Field(ge=0)] = Field(0, description="Routed experts; 0 for a dense model.")
    experts_per_token: Annotated[int, Field(ge=0)] = Field(0, description="Routed experts used for a token.")
    moe_intermediate: Annotated[int, Field(ge=0)] = Field(0, description="Inner width of an expert.")
    kv: tuple[Layers, ...] = Field((), description="Layers by kind, for the KV cache. Either this or `measured_kv`.")
    measured_kv: MeasuredKv | None = Field(None, description="A measured KV cache. Either this or `kv`.")
    multimodal: bool = Field(False, description="Takes images.")
    reasoning: bool = Field(False, description="Thinks before it answers.")
    prefix_caching: bool = Field(True, description="The engine can keep this model's prefixes.")
    min_engine: Version | None = Field(None, description="First engine release that knows it.")
    min_transformers: Version | None = Field(None, description="First transformers release that knows it.")
    source: Text | None = Field(None, description="Where these facts were read.")

    @model_validator(mode="after")
    def _one_kv_geometry(self) -> Architecture:
        if bool(self.kv) == (self.measured_kv is not None):
            raise ValueError("give either `kv` or `measured_kv`: the memory of the KV cache is planned from one of them")
        return self


class Yarn(Spec):
    """How the context is stretched beyond its native length."""

    factor: Annotated[float, Field(gt=1)] = Field(description="Factor used when a window above native is asked for.")
    max_factor: Annotated[float, Field(gt=1)] | None = Field(None, description="Largest factor that was proven or that its publisher allows.")
    location: Literal["top-level", "text-config"] = Field(description="Where the checkpoint keeps its rope parameters: at the top of config.json, or in text_config.rope_parameters.")
    parameters: dict[str, ScalarValue | tuple[ScalarValue, ...]] = Field(default_factory=dict, description="Other rope parameters of the checkpoint that an override must repeat.")
    max_context: Tokens | None = Field(None, description="Largest window to serve with it.")
    reason: Text | None = Field(None, description="Why this factor.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class Context(Spec):
    """Context windows."""

    native: Tokens = Field(description="Window that the checkpoint was trained for, in tokens.")
    yarn: Yarn | None = Field(None, description="Absent: the model is never stretched.")


class Mtp(Spec):
    """The checkpoint's own multi-token-prediction head."""

    layers: Annotated[int, Field(gt=0)] = Field(description="Draft layers.")
    weights: Literal["bf16", "fp16", "fp8", "int4", "nvfp4"] = Field(description="Stored format.")
    tensors: Annotated[int, Field(ge=0)] | None = Field(None, description="Tensors named mtp.* in the weight index; 0 means that none shipped.")
    loads: bool = Field(True, description="The pinned engine loads it, after the patches listed here.")
    note: Text | None = Field(None, description="What a reader must know.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class Vision(Spec):
    """Image input."""

    tokens_per_image: Annotated[int, Field(gt=0)] | None = Field(None, description="Tokens of a 448 x 448 image.")
    images_per_request: Annotated[int, Field(ge=0)] = Field(description="Images allowed in one request by default.")
    videos_per_request: Annotated[int, Field(ge=0)] = Field(0, description="Videos allowed in one request by default.")
    note: Text | None = Field(None, description="What a reader must know.")
    evidence: tuple[EvidenceId, ...] = Field((), description="Measurements, as topic/id.")


class Tokenizer(Spec):
    """A tokenizer that replaces the checkpoint's own."""

    repo: HubRepo = Field(description="Hub repository.")
    revision: HubSha | None = Field(None, description="Commit of the repository.")
    reason: Text = Field(description="Why the checkpoint's own does not do.")


class ListPatch(Spec):
    """Values appended to a list in a JSON file of the checkpoint, before the engine starts; applied once."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+\.json$")] = Field(description="File in the checkpoint.")
    key_path: tuple[Text, ...] = Field(description="Keys down to the list.")
    append: tuple[Text, ...] = Field(description="Values to append where they are missing.")
    only_with: Literal["always", "mtp"] = Field("always", description="When the patch is needed.")
    reason: Text = Field(description="What fails without it.")


InstalledFile = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*\.py$", description="A file below site-packages, for instance vllm/envs.py.")
]


class EnginePatch(Spec):
    """A script of the owner's that changes the installed engine, fetched and verified before it runs."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+\.py$")] = Field(description="File in the repository.")
    repo: HubRepo = Field(description="Hub repository that holds it.")
    sha256: Sha256 | None = Field(None, description="Its sha256. Without it the pod refuses to run it.")
    releases: tuple[Version, ...] = Field(min_length=1, description="Engine releases that it was written for. The pod refuses to run it on any other.")
    expects: dict[InstalledFile, Sha256] = Field(
        default_factory=dict, description="Installed files that it changes, with their sha256 before it. With them the pod refuses when one is another, or when the script changes anything else."
    )
    reason: Text = Field(description="What fails without it.")


class Verdict(Reasoned):
    """What was found about one method of speculation on this checkpoint."""

    method: Literal["mtp", "ngram", "dspark", "dflash", "eagle3", "any"] = Field(description="Method of speculation.")
    verdict: Literal["wins", "loses", "breaks-output", "does-not-start", "excluded", "unmeasured"] = Field(description="What was found.")
    tokens: Annotated[int, Field(gt=0)] | None = Field(None, description="Draft depth of the verdict.")


class Parsers(Spec):
    """Parsers of the model's markup."""

    tool_call: Text | None = Field(None, description="The engine's --tool-call-parser.")
    reasoning: Text | None = Field(None, description="The engine's --reasoning-parser.")
    tool_format: Literal["hermes-json", "qwen-xml", "kimi-sections", "other"] | None = Field(None, description="What the chat template emits for a call.")


class Resources(Spec):
    """What a host needs besides the GPU."""

    ram: Bytes | None = Field(None, description="Host memory.")
    disk: Bytes | None = Field(None, description="Container disk, weights and caches included.")
    reason: Text | None = Field(None, description="Why so much.")


class ModelSpec(Spec):
    """One checkpoint: what it is, what it needs, and what was measured on it."""

    kind: Literal["model"] = Field(description="Always `model`.")
    summary: Text = Field(description="One sentence: what it is.")
    checkpoint: Checkpoint = Field(description="Where the weights come from.")
    served_name: ServedName = Field(description="Bare name that clients use; ids that start with claude- ignore a custom window.")
    aliases: tuple[ServedName, ...] = Field((), description="Further names that answer.")
    architecture: Architecture = Field(description="The network as config.json states it.")
    quantization: Quantization = Field(description="How the checkpoint is quantized.")
    weights: Weights = Field(description="Bytes on the GPU.")
    context: Context = Field(description="Context windows.")
    parsers: Parsers = Field(default_factory=lambda: Parsers.model_validate({}), description="Parsers of its markup.")
    chat_template_kwargs: SettingMap = Field(default_factory=dict, description="Template arguments that agents must send.")
    mtp: Mtp | None = Field(None, description="Its own draft head.")
    vision: Vision | None = Field(None, description="Image input; absent for text models.")
    tokenizer: Tokenizer | None = Field(None, description="A replacement tokenizer.")
    list_patches: tuple[ListPatch, ...] = Field((), description="Repairs of the checkpoint's JSON files.")
    engine_patches: tuple[EnginePatch, ...] = Field((), description="Repairs of the engine that this model needs.")
    speculation: tuple[Verdict, ...] = Field((), description="Verdicts on speculative decoding.")
    resources: Resources = Field(default_factory=lambda: Resources.model_validate({}), description="Host memory and disk.")
    engine: EngineSettings = Field(default_factory=lambda: EngineSettings.model_validate({}), description="Settings that the model itself asks for.")
    engine_args: dict[str, Choice[SettingValue]] = Field(default_factory=dict, description="Further engine options that the model asks for, by option name.")
    env: dict[EnvName, Choice[Line]] = Field(default_factory=dict, description="Environment that the model asks for.")
    notes: tuple[Text, ...] = Field((), description="Lessons that a reader must know.")
