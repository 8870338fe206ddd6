"""A model with an offloaded n-gram table lacks something that the offload needs.

## What it flags
A `qwen4_exp` model (Flash-Next) without VLLM_PLE_CPU_OFFLOAD=1 on less GPU memory than its weights, without the `mp`
executor, without its engine patch, or with `kv_sharing_fast_prefill`.

## Why it hurts
In this order: 126 GiB do not fit 96; the start hangs for ever after graph capture; the load stops at shard 205 of
206; the engine died three times in service (`queue.Full`).

## Example
    model: flash-next
    engine_args: {kv_sharing_fast_prefill: true}

## Use instead
The settings of the model spec as they are.

## When to ignore
Never, until the model's support is merged upstream.

## Source
Flash-Next, 26 and 27 August 2026; `fn-fastprefill-survival`, `fn-weights-without-offload`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place, vram_gib
from compiler.lint.rule import Hit, Rule, Subject
from compiler.units import GIB

RULE = Rule(
    code="MDL011", name="offloaded-table-cannot-run", severity=Severity.ERROR,
    traps=("fast-prefill-kills", "ple-offload-required", "ple-executor-mp", "ple-patch"),
)  # fmt: skip


VARIABLE = "VLLM_PLE_CPU_OFFLOAD"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each piece that is missing or forbidden."""
    if subject.specs.model.architecture.model_type != "qwen4_exp":
        return
    loaded = subject.specs.model.weights.loaded / GIB
    if environment(subject, VARIABLE) != "1" and loaded > vram_gib(subject) * subject.plan.hardware.count:
        what = f"{VARIABLE} is not 1, and {loaded:.0f} GiB of weights go to the GPU"
        yield Hit(environment_place(subject, VARIABLE), what, "they do not fit", f'set {VARIABLE} to "1"')
    if subject.setting("distributed_executor_backend") != "mp":
        place, why = subject.setting_place("distributed_executor_backend"), "no worker serves the table: the start hangs without a word"
        yield Hit(place, "the executor is not mp", why, "set distributed_executor_backend to mp")
    if not subject.plan.model.script_patches:
        place = subject.place("model", "engine_patches")
        yield Hit(place, "the engine patch is missing", "the load stops at shard 205 of 206", "add patch_ple.py to engine_patches")
    if subject.setting("kv_sharing_fast_prefill"):
        place = subject.setting_place("kv_sharing_fast_prefill")
        yield Hit(place, "kv_sharing_fast_prefill is on", "it killed the engine three times in service", "remove it")
