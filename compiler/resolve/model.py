"""The model plan: checkpoint, names, window, patches."""

from __future__ import annotations

from compiler.plan.core import ConfigPatch, HubFile, ModelPlan, ScriptPatch
from compiler.resolve.planner_inputs import kernel
from compiler.resolve.start import GENERATED_MODEL
from compiler.schema.specset import SpecSet

MILLION = 1_000_000  # Clients take a name with the suffix [1m] for a window of a million tokens.



def resolve_model(specs: SpecSet, window: int, factor: float | None) -> ModelPlan:
    """The model as it will be served with a window of `window` tokens."""
    m, checkpoint = specs.model, specs.model.checkpoint
    read = sum(part.bytes_read_per_token or 0 for part in m.quantization.parts)
    names = (
        *(n.name for n in specs.profile.names), m.served_name, f"claude-{m.served_name}", *m.aliases,
    )  # fmt: skip
    if window >= MILLION:
        names = (*names, *(f"{name}[1m]" for name in names if not name.endswith("[1m]")))
    uses_mtp = specs.profile.speculation is not None and specs.profile.speculation.method == "mtp"
    return ModelPlan(
        slug=specs.profile.model or "", repo=checkpoint.repo or model_path(specs), revision=revision_of(specs), architecture=m.architecture.name, family=m.architecture.family,
        served_names=tuple(dict.fromkeys(names)), gated=checkpoint.gated, reasoning=m.architecture.reasoning, multimodal=m.architecture.multimodal,
        generated=checkpoint.generated, folder=checkpoint.folder, disk_bytes=_disk(specs), weights_bytes=m.weights.loaded, bytes_read_per_token=read or None, native_context=m.context.native,
        yarn_factor=factor, quantization=_formats(m.quantization.scheme, m.quantization.activations), kernel=kernel(specs), tokenizer=_tokenizer(specs),
        config_patches=tuple(ConfigPatch(p.file, p.key_path, p.append, p.reason) for p in m.list_patches if p.only_with == "always" or uses_mtp),
        script_patches=tuple(ScriptPatch(p.file, p.repo, p.sha256, p.reason, p.releases, dict(p.expects)) for p in m.engine_patches), chat_template_kwargs=dict(m.chat_template_kwargs),
    )  # fmt: skip


def served_names(specs: SpecSet, model: ModelPlan) -> tuple[tuple[str, ...], str]:
    """Names that the engine answers to, and why they stand in this order."""
    first = specs.profile.names[0].reason if specs.profile.names else None
    reason = first or "A bare name comes first: ids that start with claude- ignore a custom context window. The others are what clients and their agents ask for."
    return model.served_names, reason


def model_path(specs: SpecSet) -> str:
    """What `vllm serve` is given: the Hub repository, or a folder: the owner's, or that of a generated model."""
    checkpoint = specs.model.checkpoint
    return checkpoint.repo or checkpoint.folder or GENERATED_MODEL


def revision_of(specs: SpecSet) -> str | None:
    """The checkpoint's commit: from its spec, else from the lock."""
    checkpoint = specs.model.checkpoint
    if checkpoint.revision or not checkpoint.repo:
        return checkpoint.revision
    locked = specs.lock.repos.get(checkpoint.repo)
    return locked.revision if locked else None


def _disk(specs: SpecSet) -> int:
    repo = specs.model.checkpoint.repo
    locked = specs.lock.repos.get(repo) if repo else None
    return locked.size if locked and locked.size else specs.model.checkpoint.download


def _tokenizer(specs: SpecSet) -> HubFile | None:
    tokenizer = specs.model.tokenizer
    if tokenizer is None:
        return None
    locked = specs.lock.repos.get(tokenizer.repo)
    return HubFile(tokenizer.repo, tokenizer.revision or (locked.revision if locked else None), tokenizer.reason)


def _formats(scheme: str, activations: str) -> str:
    """The quantization in words: its scheme and the bits of weights and activations."""
    return f"not quantized, {activations}" if scheme == "none" else f"{scheme} {activations}"
