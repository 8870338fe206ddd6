"""Facts of a model spec cannot all be true.

## What it flags
A share of the weights above the whole (`vision`, `experts`, `offloaded`, `replicated` against `loaded`); weights that no count of
`weights.parameters` makes in the stored format; more experts for a token than there are; more layers in `kv` than `architecture.layers`;
a download much smaller than what is loaded from it (a warning: a part may be made at load).

## Why it hurts
The memory of every plan is added up from these numbers. One of them is wrong, so the plan is a guess that looks like a fact.

## Example
    weights: {loaded: 17.6GB, parameters: 70600000000}     # AWQ: 0.25 bytes a parameter, half of what 4 bits take

## Use instead
    weights: {loaded: 39.8GB, parameters: 70600000000}

## When to ignore
When a part of the file is made at load and nothing of it is downloaded; then say so in `checkpoint.source`.

## Source
Arithmetic. Bytes a parameter: 2 to 4 in 16 and 32 bits, 1 to 2 with 8-bit and 0.5 to 2 with 4-bit parts beside 16-bit ones, 5 % of room.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.schema import ModelSpec

RULE = Rule(code="MDL016", name="facts-contradict-each-other", severity=Severity.ERROR)

# Least and most bytes of a parameter, all parts of a network together.
WIDTHS = {"none": (1.9, 4.2), "fp8": (0.95, 2.1), "int8": (0.95, 2.1)}
FOUR_BITS = (0.475, 2.1)
PARALLEL = frozenset({"falcon-h1"})  # Attention and state stand side by side in every layer.
LEAST_DOWNLOAD = 0.9  # of what is loaded: sizes are stated in rounded GB
WHY = "every plan's memory is added up from these numbers, and one of them is wrong"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each pair of facts that contradict each other."""
    model = subject.specs.model
    for route, what, fix in (*_weights(model), *_network(model)):
        yield Hit(subject.place("model", *route), what, WHY, fix)
    fetched = model.checkpoint.repo is not None or model.checkpoint.folder is not None
    if fetched and model.checkpoint.download < LEAST_DOWNLOAD * model.weights.loaded:
        what = f"{model.weights.loaded / 1e9:,.1f} GB are loaded from a download of {model.checkpoint.download / 1e9:,.1f} GB"
        why, fix = "one of the two is wrong, or a part is made at load", "correct `download` or `weights.loaded`"
        yield Hit(subject.place("model", "checkpoint", "download"), what, why, fix, severity=Severity.WARNING)


def _weights(model: ModelSpec) -> Iterator[tuple[tuple[str, str], str, str]]:
    weights, scheme = model.weights, model.quantization.scheme
    for name in ("vision", "experts", "offloaded", "replicated"):
        share = getattr(weights, name)
        if share is not None and share > weights.loaded:
            yield ("weights", name), f"{name} has {share:,} bytes of the {weights.loaded:,} that are loaded", "read both from the same headers"
    if weights.parameters is not None:
        low, high = WIDTHS.get(scheme, FOUR_BITS)
        width = weights.loaded / weights.parameters
        if not low <= width <= high:
            what = f"{weights.loaded / 1e9:,.1f} GB of weights for {weights.parameters / 1e9:,.2f} billion parameters are {width:.2f} bytes each; {scheme} takes {low:g} to {high:g}"
            yield ("weights", "parameters"), what, "correct `loaded`, `parameters` or the scheme"


def _network(model: ModelSpec) -> Iterator[tuple[tuple[str, str], str, str]]:
    a = model.architecture
    if a.experts_per_token > a.experts:
        yield ("architecture", "experts_per_token"), f"{a.experts_per_token} experts for a token of {a.experts}", "read both from config.json"
    counted = sum(group.layers for group in a.kv if group.kind not in ("indexer", "conv") and (group.kind != "mamba2" or a.family not in PARALLEL))
    if a.layers is not None and counted > a.layers:
        yield ("architecture", "kv"), f"{counted} layers in `kv` of a network of {a.layers}", "count each layer once"
