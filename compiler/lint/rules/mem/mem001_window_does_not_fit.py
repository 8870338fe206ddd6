"""The model, its cache for one full window and the engine's overhead do not fit the GPU.

## What it flags
A plan whose memory verdict is `refused` for another reason than state blocks (MEM003): weights above the budget, a
window larger than the cache, or less free memory at the start than the utilization asks for.

## Why it hurts
The engine downloads and loads everything, sizes its cache, and then exits: `To serve at least one request with the
model's max seq len`, or an out-of-memory error. The pod is billed meanwhile.

## Example
    settings:
      max_model_len: 1M          # dense 27B: 64 KiB a token, 2 x A40 hold about 794,000

## Use instead
    settings:
      max_model_len: 512Ki       # or a smaller cache type, more GPUs, a lighter checkpoint; `auto` takes the largest that fits

## When to ignore
Only where a start on that very card contradicts the planner; then correct the sizes in the model spec.

## Source
Closed form of the engine's own sizing (`determine_available_memory`, `check_enough_kv_cache_memory`), proven against
H200 start-ups; dense 27B on 2 x A40; vllm#16118, vllm#14979.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, layer_kinds, mapping, speculation_method
from compiler.lint.rule import Hit, Rule, Subject
from compiler.units import GIB

RULE = Rule(
    code="MEM001", name="window-does-not-fit", severity=Severity.ERROR, refusal=True,
    traps=(
        "ctx-1m-one-card", "qwen38-ctx-vs-pool", "qwen38-1m-needs-tq", "dp2-context", "fn-mtp", "window-over-cache",
        "mtp-kills-window-dcp", "graph-capture-oom-5090",
    ),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each reason of a refused plan that is not about state blocks."""
    memory = subject.plan.memory
    if memory.verdict != "refused":
        return
    longest = memory.longest_context
    fix = f"set max_model_len to {longest:,} tokens or less" if longest > 0 else "take a larger GPU, more GPUs or a lighter checkpoint"
    head = (subject.specs.model.weights.mtp or 0) / GIB / subject.plan.engine.tensor_parallel
    if speculation_method(subject) == "mtp" and 0 < memory.shortfall_gib <= head:
        fix = f"turn speculation off (without its draft head of {head:.2f} GiB a GPU it fits), or {fix}"
    if subject.setting("disable_hybrid_kv_cache_manager") and layer_kinds(subject) - {"full"}:
        fix = "remove disable_hybrid_kv_cache_manager" + ("" if is_hybrid(subject) else f", which plans every layer as a full one; or {fix}")
    elif is_hybrid(subject) and mapping(subject, "kv_transfer_config") and any("hybrid cache manager" in text for text in memory.reasons):
        fix = "use a connector that keeps the hybrid cache manager on, or none"
    missing = f" ({memory.shortfall_gib:.2f} GiB are missing)" if memory.shortfall_gib > 0 else ""
    for reason in memory.reasons:
        if not reason.startswith("max_num_seqs"):
            yield Hit(
                subject.setting_place("max_model_len"),
                f"it does not fit{missing}: {reason}",
                f"the engine would load {memory.weights_gib:.1f} GiB of weights on each GPU and then exit",
                f"{fix}; `podwright plan {subject.plan.profile}` shows every part",
            )
