"""Draft and cache meet a fault that is known for this combination.

## What it flags
Gemma 4 with drafts, an `auto` cache and a release before 0.24; Step-3 with MTP, a modelopt checkpoint and a release
before 0.26 (an error); AutoRound checkpoints with a quantized MTP head; a hybrid model with drafts on FlashInfer, by
choice or because the engine takes it by itself.

## Why it hurts
In this order: text of one session appears in another; the head's tensors have the wrong shape and the start fails;
the head silently runs unquantized, twice as large as planned; the graph estimate turns negative and the cache is
sized a GiB too large.

## Example
    engine: vllm-0.23.0
    model: gemma-4-31b
    speculation: {method: mtp, tokens: 2}

## Use instead
A later release, an fp8 cache, or no drafts; for the last two, a GiB of margin.

## When to ignore
When the release carries the repair.

## Source
vllm#46088, vllm#48883, vllm#49552, vllm#30515.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import resolved
from compiler.lint.facts import is_hybrid, kv_dtype, older, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD012", name="draft-fault-of-this-release", severity=Severity.WARNING,
    traps=("mtp-auto-kv-batch-garbage", "mtp-head-prefix", "mtp-autoround-silent", "graph-estimate-negative"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each known fault that applies."""
    if not speculates(subject):
        return
    model, method, flashinfer = subject.specs.model, speculation_method(subject), resolved(subject) == "FLASHINFER"
    kind, quantizer = model.architecture.model_type.lower(), (model.quantization.method or "").replace("-", "_")
    head = model.mtp
    packed = head is not None and head.weights not in ("bf16", "fp16") and not model.quantization.mtp_in_ignore_list
    draft = method in ("mtp", "draft_model")
    gemma = kind.startswith("gemma4") and draft and kv_dtype(subject) == "auto" and older(subject, 0, 24)
    step = kind.startswith("step3") and method == "mtp" and "modelopt" in quantizer and older(subject, 0, 26)
    faults = (
        (gemma, "text of one session can appear in another", None),
        (step, "the head's tensors have another shape than the engine expects", Severity.ERROR),
        (method == "mtp" and packed and quantizer in ("inc", "auto_round"), "the draft head silently runs unquantized, larger than planned", None),
        (is_hybrid(subject) and flashinfer and subject.setting("kv_cache_memory_bytes") is None, "the graph estimate turns negative, and the cache is sized a GiB too large", None),
    )
    for applies, why, severity in faults:
        if applies:
            what = f"{method} speculation on {model.architecture.model_type} with release {subject.plan.engine.release}: a known fault"
            yield Hit(speculation_place(subject), what, why, "take a later release, or keep a GiB free", severity=severity)
