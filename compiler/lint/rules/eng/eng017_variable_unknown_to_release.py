"""A `VLLM_*` variable does not exist in this release.

## What it flags
A variable whose name starts with `VLLM_` and that the release does not read; and `HF_HUB_ENABLE_HF_TRANSFER`, which the Hub's client
of all shipped releases reads no more.

## Why it hurts
It does nothing, silently: a misspelled switch looks as if it had been set, and one that a later release replaced by an option too.

## Example
    env: {VLLM_USE_FLASHINFER_SAMPLE: "0"}

## Use instead
    env: {VLLM_USE_FLASHINFER_SAMPLER: "0"}

## When to ignore
For a variable of a patched engine or a plug-in.

## Source
The variables in the flag snapshot; vllm#50292; `constants.py` of huggingface_hub 2.4.0. Preview images are left out, for they read more than their release.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment_place
from compiler.lint.removed_options import REPLACED
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG017", name="variable-unknown-to-release", severity=Severity.WARNING)

_WHY = "it changes nothing, and looks as if it did"
# Of huggingface_hub 2.4.0, which the locks of 0.26.0, 0.27.1 and 0.33.0 have.
GONE = {"HF_HUB_ENABLE_HF_TRANSFER": "remove it: hf_xet downloads, and HF_XET_HIGH_PERFORMANCE=1 lets it take the whole line"}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unknown variable."""
    known = subject.specs.flags.registries.get("environment_variables", ())
    if not known or subject.specs.engine.preview:
        return
    for variable in subject.plan.engine.env:
        if variable.name.startswith("VLLM_") and variable.name not in known:
            near = difflib.get_close_matches(variable.name, known, n=1, cutoff=0.7)
            fix = REPLACED.get(variable.name) or (f"did you mean {near[0]}?" if near else "remove it")
            what = f"vLLM {subject.specs.flags.release} reads no variable {variable.name}"
            yield Hit(environment_place(subject, variable.name), what, _WHY, fix, on_key=True)
        elif variable.name in GONE:
            what = f"the Hub's client beside vLLM {subject.specs.flags.release} reads no variable {variable.name}"
            yield Hit(environment_place(subject, variable.name), what, _WHY, GONE[variable.name], on_key=True)
