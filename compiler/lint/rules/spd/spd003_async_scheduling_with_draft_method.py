"""Async scheduling is forced on with a draft method that cannot use it.

## What it flags
`async_scheduling: true` with n-gram, suffix or Medusa drafts (any method outside EAGLE, MTP, draft model, GPU n-gram,
DFlash, DSpark), or with `disable_padded_drafter_batch`. From 0.33 on an information, unless the older runner is forced.

## Why it hurts
The engine refuses the flag. Unset, it would turn async scheduling off by itself, which is where the speed goes.

## Example
    settings: {async_scheduling: true}
    speculation: {method: ngram, tokens: 24}

## Use instead
    speculation: {method: off}
    settings: {async_scheduling: true}      # or leave async_scheduling unset with the draft

## When to ignore
Never: the engine refuses.

## Source
`engine-async-ngram`; 0.27.1's `VllmConfig.__post_init__`; vllm#40831.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, mapping, older, speculates, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD003", name="async-scheduling-with-draft-method", severity=Severity.ERROR, refusal=True,
    traps=("spec-disables-async", "async-flag-conditional", "async-sched-method", "async-sched-padded"),
)  # fmt: skip


SUPPORTED = frozenset({"mtp", "eagle", "eagle3", "draft_model", "ngram_gpu", "dflash", "dspark"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each pair that the engine refuses."""
    if subject.setting("async_scheduling") is not True or not speculates(subject):
        return
    # From 0.33 on the older runner alone refuses.
    late = not older(subject, 0, 33) and environment(subject, "VLLM_USE_V2_MODEL_RUNNER") != "0"
    severity, why = (Severity.INFO, "releases up to 0.32 refuse the pair") if late else (None, "the engine refuses the pair")
    method = speculation_method(subject)
    if method not in SUPPORTED:
        place = subject.setting_place("async_scheduling")
        what = f"async scheduling is forced on with {method} speculation"
        fix = "leave async_scheduling unset, or turn speculation off"
        yield Hit(place, what, why, fix, severity=severity, edit=None if late else Edit("remove", place))
    if mapping(subject, "speculative_config").get("disable_padded_drafter_batch"):
        yield Hit(
            subject.setting_place("async_scheduling"),
            "async scheduling is forced on with disable_padded_drafter_batch",
            why,
            "drop one of them",
            severity=severity,
        )
