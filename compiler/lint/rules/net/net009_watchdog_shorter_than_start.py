"""A timeout ends before a start, or a long prefill, can have ended.

## What it flags
`watchdog.boot_stall` below 900 s, `VLLM_ENGINE_READY_TIMEOUT_S` below 600, `watchdog.grace_probes` of 0,
`watchdog.probe_timeout` below 30 s.

## Why it hurts
A first start downloads, compiles kernels and captures graphs; a prefill above 100,000 tokens holds the scheduler for
130 to 170 s. A healthy engine is then reported, or restarted, and starts from nothing again.

## Example
    watchdog: {boot_stall: 300, probe_timeout: 10, grace_probes: 0}

## Use instead
Leave them out: 1,800 s, 90 s and three probes.

## When to ignore
For a small model whose cold start was timed.

## Source
The defaults and their reasons in the profile schema; prefills timed on the A40 pair.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET009", name="watchdog-shorter-than-start", severity=Severity.WARNING)

VARIABLE = "VLLM_ENGINE_READY_TIMEOUT_S"
READY_S = 600
LEAST = {"boot_stall": (900, "a cold start is reported as stalled"), "probe_timeout": (30, "a long prefill is taken for a wedge and restarted"),
         "grace_probes": (1, "the first slow probe after a start counts")}  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each timeout that is too short."""
    watchdog = subject.specs.profile.watchdog
    for name, (least, why) in LEAST.items():
        value = getattr(watchdog, name)
        if value < least:
            what, fix = f"watchdog.{name} is {value:g}", f"set it to {least} or more"
            yield Hit(subject.place("profile", "watchdog", name), what, why, fix)
    ready = environment(subject, VARIABLE) or ""
    if ready.isdecimal() and int(ready) < READY_S:
        what, why = f"{VARIABLE} is {ready}", "the engine gives its own workers up while they still load or compile"
        yield Hit(environment_place(subject, VARIABLE), what, why, f"set it to {READY_S} or more")
