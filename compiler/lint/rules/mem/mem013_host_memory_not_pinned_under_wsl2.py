"""WSL2 does not pin host memory, and something here needs it pinned.

## What it flags
A WSL2 host whose spec does not say `pinned_memory: true`, without the engine's switch for it: the V2 model runner, which is every
model's from release 0.29 on and dense ones' before (an error), `kv_offloading_size` or `cpu_offload_gb` with any.

## Why it hurts
Unified addressing does not work then, and that runner keeps its tables in it: workers die with `UVA is not available`. Offloads
copy slowly, or not at all.

## Example
    hardware: a-wsl2-host        # no env, nothing about pinned_memory
    engine: vllm-0.33.0

## Use instead
    env:
      VLLM_WSL2_ENABLE_PIN_MEMORY: {value: "1", reason: unified addressing needs pinned memory}

## When to ignore
Never for the error. The warning, when the offload was measured to pay.

## Source
`l-v029-agg16`: rejected on one day, accepted two days later with the switch on; vllm#49011; `is_pin_memory_available` and the
runner's `UvaBuffer` in 0.26 to 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM013", name="host-memory-not-pinned-under-wsl2", severity=Severity.WARNING, traps=("wsl-pin-memory", "uva-wall"))


SWITCH, RUNNER = "VLLM_WSL2_ENABLE_PIN_MEMORY", "VLLM_USE_V2_MODEL_RUNNER"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each offload, and one for a runner that dies so."""
    host = subject.specs.hardware.host
    pinned = host.pinned_memory and "pinned_memory" in host.model_fields_set
    if host.kind != "wsl2" or pinned or environment(subject, SWITCH) == "1":
        return
    fix, forced = f'set {SWITCH} to "1"', environment(subject, RUNNER)
    for name in ("kv_offloading_size", "cpu_offload_gb"):
        if subject.setting(name):
            yield Hit(subject.setting_place(name), f"{name} under WSL2, where host memory is not pinned", "copies are slow, or fail", fix)
    always = not older(subject, 0, 29) and forced != "0"
    if always or forced == "1" or subject.plan.engine.runner == "V2":
        what = f"the V2 model runner of release {subject.plan.engine.release} under WSL2 without {SWITCH}"
        yield Hit(environment_place(subject, SWITCH), what, "its workers die: `UVA is not available`", fix, severity=Severity.ERROR)
