"""The memory utilization is above a limit that was measured for this kind of configuration.

## What it flags
`gpu_memory_utilization` above 0.95 with CUDA graphs (0.97 ran out on some cards and served on others), above 0.90 with a DSpark draft, above 0.85 with Marlin experts on a 24 GB
card, and above 0.85 with a TurboQuant cache (an error from 0.93 on, with windows of 700,000 tokens and more on compute capability 8.6:
where it was seen).

## Why it hurts
Some buffers are taken after the engine has sized its cache: graph capture, a draft's tensors, Marlin's workspace
(0.85 to 1 GB), TurboQuant's continuation prefill (516 MiB). The engine then dies at the start or, with TurboQuant, in
the middle of a long prompt.

## Example
    settings:
      kv_cache_dtype: turboquant_k3v4_nc
      gpu_memory_utilization: 0.93

## Use instead
    settings:
      kv_cache_dtype: turboquant_k3v4_nc
      gpu_memory_utilization: 0.85

## When to ignore
When the longest prompt was served at this utilization on this card, with the measurement in the evidence.

## Source
`a40-qwen38-tq-oom-700k`, `dspark-093-graph-capture-free`, `l-marlin-temp`; vllm#57475.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import captures_graphs, is_moe, is_turboquant, sm, speculation_method, uses_marlin, utilization, vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MEM004", name="utilization-above-what-holds", severity=Severity.WARNING,
    traps=("tq-prefill-oom", "dspark-util", "marlin-temps", "graph-capture-oom", "util-093-sampler-oom"),
)  # fmt: skip


# The utilization and the prompt at which a TurboQuant cache was seen to kill the engine.
SEEN_AT, SEEN_WITH = 0.93, 700_000


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each measured limit that the utilization exceeds."""
    if subject.setting("kv_cache_memory_bytes") is not None:
        return
    for applies, limit, what, why, severity in _limits(subject):
        if applies and utilization(subject) > limit:
            yield Hit(
                subject.setting_place("gpu_memory_utilization"),
                f"utilization {utilization(subject):g} and {what}: {limit:g} is the most that held",
                why,
                f"set gpu_memory_utilization to {limit:g} or less",
                severity=severity,
            )


def _limits(subject: Subject) -> tuple[tuple[bool, float, str, str, Severity], ...]:
    """Rows: whether it applies, the limit, with what, why, severity."""
    seen = sm(subject) == 86 and utilization(subject) >= SEEN_AT and subject.plan.engine.max_model_len >= SEEN_WITH
    packed = Severity.ERROR if seen else Severity.WARNING
    small_marlin = is_moe(subject) and uses_marlin(subject) and vram_gib(subject) <= 24.1
    return (
        (is_turboquant(subject), 0.85, "a TurboQuant cache", "a long prompt takes 516 MiB more and kills it", packed),
        (speculation_method(subject) == "dspark", 0.90, "a DSpark draft", "220 MiB were free after capture at 0.93", Severity.WARNING),
        (small_marlin, 0.85, "Marlin experts on 24 GB", "Marlin takes up to 1 GB beside it", Severity.WARNING),
        (captures_graphs(subject), 0.95, "CUDA graphs", "capture ran out of memory at 0.97", Severity.WARNING),
    )
