"""A timeout ends before a start, or a long prefill, can have ended.

## What it flags
`watchdog.boot_stall` below 900 s, `VLLM_ENGINE_READY_TIMEOUT_S` below 600, `watchdog.grace_probes` of 0,
`watchdog.probe_timeout` below 30 s, or shorter than one step of `max_num_batched_tokens` at the rate of two A40.

## Why it hurts
A first start downloads, compiles kernels and captures graphs. Within one step of a prefill nothing of the engine moves, and
`probe_timeout` is the patience with that. A healthy engine is then reported, or restarted, and starts from nothing again.

## Example
    watchdog: {boot_stall: 300, probe_timeout: 10, grace_probes: 0}

## Use instead
Leave them out: 1,800 s, 90 s and three probes.

## When to ignore
For a small model whose cold start was timed.

## Source
The defaults and their reasons in the profile schema; `agents-v55-live-metrics` (2.5 s for a step of 16,384 tokens on two A40).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET009", name="watchdog-shorter-than-start", severity=Severity.WARNING)

VARIABLE = "VLLM_ENGINE_READY_TIMEOUT_S"
READY_S = 600
LEAST = {"boot_stall": (900, "a cold start is reported as stalled"), "probe_timeout": (30, "one slow step is taken for a wedge and restarted"),
         "grace_probes": (1, "the first slow probe after a start counts")}  # fmt: skip
STEP_S_PER_TOKEN = 2.5 / 16384


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each timeout that is too short."""
    watchdog = subject.specs.profile.watchdog
    for name, (least, why) in LEAST.items():
        value = getattr(watchdog, name)
        if value < least:
            what, fix = f"watchdog.{name} is {value:g}", f"set it to {least} or more"
            yield Hit(subject.place("profile", "watchdog", name), what, why, fix)
    step = min(subject.plan.engine.max_num_batched_tokens, subject.plan.engine.max_model_len)
    if on_gpu(subject) and step * STEP_S_PER_TOKEN > watchdog.probe_timeout:
        what = f"one step of {step:,} tokens takes {step * STEP_S_PER_TOKEN:.0f} s on two A40, and watchdog.probe_timeout is {watchdog.probe_timeout:g} s"
        yield Hit(subject.setting_place("max_num_batched_tokens"), what, "a prefill in one step looks like a wedge and is restarted", "lower max_num_batched_tokens")
    ready = environment(subject, VARIABLE) or ""
    if ready.isdecimal() and int(ready) < READY_S:
        what, why = f"{VARIABLE} is {ready}", "the engine gives its own workers up while they still load or compile"
        yield Hit(environment_place(subject, VARIABLE), what, why, f"set it to {READY_S} or more")
