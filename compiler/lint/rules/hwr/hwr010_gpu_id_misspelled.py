"""A RunPod GPU id is missing or spelled differently.

## What it flags
A pod at RunPod whose hardware has no id, or an id that equals a known one but for case and spaces, or that is unknown.

## Why it hurts
Ids are exact strings, double spaces included. A wrong one gives `no longer any instances available`, which reads like a
lack of capacity.

## Example
    runpod_ids: [Nvidia A40]

## Use instead
    runpod_ids: [NVIDIA A40]

## When to ignore
For an id newer than podwright's table: an unknown id is only an info.

## Source
RunPod's REST v1 document, GPU ids of July 2026, and its GPU page.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.runpod_names import GPU_IDS

RULE = Rule(code="HWR010", name="gpu-id-misspelled", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """An error for a missing or misspelled id, an info for an unknown one."""
    if subject.plan.target != "runpod":
        return
    known = {_plain(gpu): gpu for gpu in GPU_IDS}
    if not subject.plan.hardware.runpod_ids:
        what = f"{subject.plan.hardware.slug} has no RunPod GPU id"
        yield Hit(subject.place("hardware", "gpu"), what, "no pod can be asked for", "add gpu.runpod_ids, or choose target: docker")
    for index, gpu in enumerate(subject.plan.hardware.runpod_ids):
        place = subject.place("hardware", "gpu", "runpod_ids", index)
        if gpu in GPU_IDS or " MIG " in gpu:
            continue
        if _plain(gpu) in known:
            why = "ids are exact strings, and a wrong one is answered like a lack of capacity"
            yield Hit(place, f"no GPU id is spelled `{gpu}`", why, f"write `{known[_plain(gpu)]}`")
        else:
            near = difflib.get_close_matches(gpu, sorted(GPU_IDS), n=1, cutoff=0.6)
            fix = f"compare with `{near[0]}`" if near else "compare with RunPod's catalogue"
            yield Hit(
                place,
                f"`{gpu}` is not among the known GPU ids",
                "a wrong id is answered like a lack of capacity",
                fix,
                severity=Severity.INFO,
            )


def _plain(gpu: str) -> str:
    return "".join(gpu.lower().split())
