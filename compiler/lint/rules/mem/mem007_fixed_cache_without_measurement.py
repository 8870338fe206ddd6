"""The size of the KV cache is fixed, and no measurement of this configuration backs it.

## What it flags
`kv_cache_memory_bytes` without evidence, or with evidence that was measured with another model or another GPU count.

## Why it hurts
A fixed size skips the engine's accounting: nothing checks that activations fit. One value that the engine itself
suggested died under two full prefills; another died when images were turned on.

## Example
    settings:
      kv_cache_memory_bytes: 17GiB

## Use instead
    settings:
      kv_cache_memory_bytes: {value: 15569256448, reason: measured, evidence: [flash-next-capacity/fn-kv-bytes-14-5g]}

## When to ignore
Only on a test pod, until two simultaneous prefills of the whole window have been served.

## Source
`fn-kv-bytes-17g`, `fn-vllm-suggested-kv`, `fn-kv-bytes-14-5g`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import decision
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MEM007", name="fixed-cache-without-measurement", severity=Severity.WARNING,
    traps=(
        "kvbytes-kills-in-service", "kvbytes-config-specific", "vllm-suggested-kv", "kvbytes-skips-profiling", "kvbytes-gate",
    ),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no evidence is given (error), or when none of it fits this configuration (warning)."""
    if subject.setting("kv_cache_memory_bytes") is None:
        return
    chosen = decision(subject, "kv_cache_memory_bytes")
    measured = [subject.specs.evidence[i] for i in (chosen.evidence if chosen else ()) if i in subject.specs.evidence]
    plan = subject.plan
    fits = [m for m in measured if m.model in (None, plan.model.slug) and m.gpus in (None, plan.hardware.count)]
    if fits:
        return
    what = "was measured with another model or GPU count" if measured else "rests on no measurement"
    yield Hit(
        subject.setting_place("kv_cache_memory_bytes"),
        f"the fixed cache size {what}",
        "a fixed size skips the engine's accounting, and too much of it kills the engine in service, not at the start",
        "serve two prefills of the whole window at once on this model, cache type, speculation and GPU count, and cite that run",
    )
