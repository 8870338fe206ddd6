"""The engine, or its transformers, does not know the model.

## What it flags
A release before the model spec's `min_engine`, a transformers before its `min_transformers` (unless the image
installs a later one), or an architecture that is not in the release's registry.

## Why it hurts
The start fails after the image is pulled: `does not recognize this architecture`. With an older transformers some
models load and misread their images.

## Example
    engine: vllm-0.24.0
    model: qwen38-27b-awq        # from 0.25.0 on

## Use instead
A release that knows it.

## When to ignore
When a build of the older release carries the model; then give that build its own engine spec.

## Source
vast-ai/base-image#128; `fn-vision-7-before` against `fn-vision-7-after`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import release, version
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight

RULE = Rule(
    code="MDL006", name="engine-too-old-for-model", severity=Severity.ERROR, refusal=True,
    traps=("transformers-too-old-image", "qwen4-exp-unknown", "nemotron-hybrid-arch", "transformers-old", "k2-horizon-tag"),
)  # fmt: skip


# Where the model spec says nothing.
MIN_TRANSFORMERS = {"qwen4_exp": "5.16.1"}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each part of the engine that is too old."""
    needs, engine, place = subject.specs.model.architecture, subject.specs.engine, subject.place("profile", "engine")
    slug, fix = subject.plan.model.slug, "choose a later engine release"
    if needs.min_engine and not engine.preview and release(subject) < version(needs.min_engine):
        yield Hit(place, f"{slug} needs engine {needs.min_engine}, this is {engine.release}", "the engine does not know the model", fix)
    installed = [p.requirement.split("==")[1] for p in subject.plan.image.packages if p.requirement.startswith("transformers==")]
    transformers = installed[0] if installed else engine.transformers
    least = needs.min_transformers or MIN_TRANSFORMERS.get(needs.model_type)
    if least and version(transformers) < version(least):
        what = f"{slug} needs transformers {least}, the image has {transformers}"
        yield Hit(place, what, "transformers does not recognize the model, or misreads its inputs", fix)
    if not engine.preview and not subject.specs.flags.knows("model_architectures", needs.name):
        what = f"vLLM {subject.specs.flags.release} has no architecture {needs.name}"
        yield Hit(place, what, "the engine does not know the model", fix, weight(subject))
