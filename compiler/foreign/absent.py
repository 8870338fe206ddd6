"""What a command takes for granted: packages that no image of vLLM's brings, and weights in a format that the model's name denies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.launch import Launch
from compiler.foreign.named import family_named
from compiler.foreign.options import Arguments, Option
from compiler.lint.rules.qnt.qnt019_forced_method_unlike_checkpoint import FAMILIES
from compiler.lint.rules.qnt.qnt021_block_scales_without_kernel import OFF, SWITCH

OMNI = "--omni"
_OFFICIAL = re.compile(r"(?:docker\.io/)?vllm/vllm-openai\b")
# Publishers whose FP8 exports are compressed-tensors without scales for the cache, which take either format.
_PLAIN_CACHE = re.compile(r"(?:redhatai|neuralmagic|nm-testing)/", re.IGNORECASE)
_FP8_NAME = re.compile(r"(?:^|[-_/])(?:nv)?fp[48](?:$|[-_])", re.IGNORECASE)
_FOUR_BITS = re.compile(r"(?:^|[-_])(awq|gptq)(?:$|[-_])", re.IGNORECASE)
_IN_FAMILIES = frozenset().union(*FAMILIES)
_NO_HALF = frozenset({"gemma_2", "gemma_3"})
# Publishers' own FP8 releases with a scale for each block; Qwen from 3.5 on is left out, since the engine leaves DeepGEMM aside for it.
_BLOCKS = re.compile(
    r"qwen/qwen3(?!\.\d)\S*-fp8$|deepseek-ai/deepseek-(?:v3|r1)(?!\S*distill)|minimaxai/minimax-m2|\S+-fp8-block$", re.IGNORECASE
)


def is_omni(launch: Launch) -> bool:
    """True for a command of vllm-omni, which has options of its own."""
    return any(word.text == OMNI for word in launch.words)


def absent_findings(
    launch: Launch, read: Arguments, *, model_known: bool, capability: str | None = None, release: str = ""
) -> Iterator[Diagnostic]:
    """Findings about packages, and where no spec describes the model about what its name says of the weights.

    `capability` is the card's, None where nobody named one; `release` the engine's.
    """
    severity = Severity.ERROR if launch.image is not None and _OFFICIAL.match(launch.image.text) else Severity.WARNING
    drafts = read.options.get("speculative_config")
    if drafts is not None and isinstance(drafts.value, dict) and drafts.value.get("method") == "suffix":
        why = "Neither the release nor its image has it: the engine ends with an ImportError before it loads anything."
        fix = "Install arctic-inference 0.1.1 beside the engine, or draft by ngram."
        yield launch.source.finding("CMD018", severity, "drafts by suffixes need the package arctic-inference", why, fix, drafts.span)
    if is_omni(launch):
        word = next(word for word in launch.words if word.text == OMNI)
        why = "vLLM alone refuses the option; those of the other package are not judged here."
        fix = "Take an image of vllm-omni, or leave --omni out for a model that writes text."
        yield launch.source.finding("CMD018", severity, "--omni belongs to the package vllm-omni", why, fix, word.span)
    if read.model is not None and not read.model.unknown and not model_known:
        yield from _named_format(launch, read.model.text, read.options)
        off = launch.env.get(SWITCH)
        without = (capability or "").startswith("12.") and release.startswith("0.27.") and (off is None or off.text not in OFF)
        if without and _BLOCKS.match(read.model.text):
            name = read.model.text
            what = f"by its name `{name}` has a scale for each block of weights, and DeepGEMM of {release} no kernel for {capability}"
            why = "The engine chooses it all the same, and dies with `Unknown SF transformation` while it loads."
            fix = f"Set {SWITCH}=0, or take a release from 0.33 on."
            yield launch.source.finding("CMD019", Severity.WARNING, what, why, fix, read.model.span)


def _named_format(launch: Launch, model: str, options: dict[str, Option]) -> Iterator[Diagnostic]:
    values = {name: str(option.value).lower() for name, option in options.items() if not option.unknown}
    found: list[tuple[str, str, str, str]] = []
    own, forced = _FOUR_BITS.search(model), values.get("quantization", "")
    if own is not None and forced in _IN_FAMILIES and not any({own[1].lower(), forced} <= family for family in FAMILIES):
        what = f"the method {forced} for weights that are {own[1].upper()} by the name `{model}`"
        found.append(("quantization", what, "Leave --quantization out.", "the pair"))
    if values.get("kv_cache_dtype") == "fp8_e5m2" and _FP8_NAME.search(model) and not _PLAIN_CACHE.match(model):
        what = f"an fp8_e5m2 cache for weights that are FP8 or FP4 by the name `{model}`"
        found.append(("kv_cache_dtype", what, "Take fp8 or auto.", "it where the weights bring scales"))
    if values.get("dtype") in ("float16", "half") and family_named(model) in _NO_HALF:
        what = f"{values['dtype']} for a Gemma of the second or third generation"
        found.append(("dtype", what, "Take bfloat16.", "it: the numbers overflow"))
    for name, what, fix, refused in found:
        why = f"The engine refuses {refused}."
        yield launch.source.finding("CMD019", Severity.WARNING, what, why, fix, options[name].span)
