"""A spec sets a `VL_*` variable.

## What it flags
A `VL_*` variable in `env`; an error where no lever has that name or the value does not fit it.

## Why it hurts
Those variables change a pod that nobody can edit any more. In a spec they hide from the memory plan and from every
rule, and the environment is frozen with the pod. The bootstrap refuses what it cannot read.

## Example
    env: {VL_CTX: "131072"}

## Use instead
    settings: {max_model_len: 131072}

## When to ignore
Never: the spec has a key for it.

## Source
Deployment notes on the environment of a pod; the table of levers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG018", name="emergency-lever-in-spec", severity=Severity.WARNING, traps=("pod-env-frozen", "force-model-hardwired"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each lever that a spec pulls."""
    levers = {o.name: o for o in subject.plan.overrides}
    for name, choice in subject.specs.profile.env.items():
        if not name.startswith("VL_"):
            continue
        lever = levers.get(name)
        place = subject.place("profile", "env", name)
        if lever is None:
            near = difflib.get_close_matches(name, levers, n=1, cutoff=0.6)
            fix = f"did you mean {near[0]}?" if near else "remove it"
            yield Hit(
                place, f"{name} is no lever of this profile", "the bootstrap does not read it", fix, severity=Severity.ERROR, on_key=True
            )
        elif not re.fullmatch(lever.pattern, choice.value):
            yield Hit(
                place,
                f"{name} cannot be `{choice.value}`",
                "the bootstrap refuses it and stops",
                f"it must match {lever.pattern}",
                severity=Severity.ERROR,
            )
        else:
            what, fix = f"{name} pulls an emergency lever in a spec", f"set what it changes: {lever.setting.removeprefix('runtime.')}"
            yield Hit(place, what, "memory plan and rules do not see it, and the environment is frozen with the pod", fix)
