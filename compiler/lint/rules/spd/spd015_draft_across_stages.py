"""A draft is combined with pipeline stages.

## What it flags
Any method of speculation with `pipeline_parallel_size` above 1. An error for the heads that releases up to 0.27 refuse there (MTP of most
families, EAGLE, DFlash, DSpark), else a warning.

## Why it hurts
These releases give the draft as many stages as the model and ask its class for support of stages, which most heads lack: `Pipeline
parallelism is not supported for this model` names the model, and the draft is meant. Other methods start and meet an assertion, or are slow:
each draft waits for a whole round through the stages.

## Example
    speculation: {method: mtp, tokens: 3}
    settings: {pipeline_parallel_size: 2}

## Use instead
    speculation: {method: mtp, tokens: 3}
    settings: {tensor_parallel_size: 2}

## When to ignore
The warning, where a measurement shows that the draft pays.

## Source
vllm#52069, vllm#49355, vllm#57755; `create_draft_parallel_config` of 0.26.0 and 0.27.1, which 0.33.0 gives one stage.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import number, older, option_place, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD015", name="draft-across-stages", severity=Severity.ERROR, refusal=True)

_HEADS = ("mtp", "eagle", "eagle3", "dflash", "dspark")
# Families whose MTP head declares support of stages in 0.26.0 and 0.27.1.
_STAGED = ("nemotron_h", "nemotron-h", "glm4_moe_lite", "glm_ocr")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a draft beside more than one stage."""
    stages = number(subject, "pipeline_parallel_size") or 1
    if stages <= 1 or not speculates(subject):
        return
    method = speculation_method(subject)
    place = speculation_place(subject) if subject.specs.profile.speculation is not None else option_place(subject, "speculative_config")
    is_refused = method in _HEADS and not older(subject, 0, 26) and not (method == "mtp" and _is_staged(subject))
    yield Hit(
        place, f"{method} drafts beside {stages:g} pipeline stages",
        "the engine asks the draft for support of stages and refuses" if is_refused else "each draft waits for a whole round through the stages",
        "split the layers instead (tensor_parallel_size), or drop the draft", None if is_refused else Severity.WARNING,
    )  # fmt: skip


def _is_staged(subject: Subject) -> bool:
    architecture = subject.specs.model.architecture
    return architecture.family in _STAGED or architecture.model_type in _STAGED
