"""This method of speculation was tried on this checkpoint, and the verdict is against it.

## What it flags
A method whose verdict in the model spec is `breaks-output`, `does-not-start` or `excluded` (errors) or `loses` (a
warning). As an information, a verdict `wins` at another draft depth.

## Why it hurts
Speculation is a property of the model, not a switch that is good in itself: it corrupts code on Kimi-Linear, costs 62
to 73 per cent on Nemotron, and wins 75 per cent on the dense Qwen3.8.

## Example
    model: kimi-linear
    speculation: {method: ngram, tokens: 8}

## Use instead
    speculation: {method: off}

## When to ignore
A `loses`, for a workload unlike the measured one (an answer that cites its prompt, one session); cite the new run.

## Source
The `speculation` verdicts of each model spec, with their evidence: `kimi-spec-corrupts`, `nemotron-all-spec`,
`a40-mtp2-solo-85k`, `a40-ornith-ngram-adaptive-1`, `qwen38-mtp-k3-l40s`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import draft_tokens, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD001", name="speculation-found-harmful", severity=Severity.WARNING,
    traps=(
        "kimi-spec-corrupts", "kimi-spec-guard", "ngram-ornith-adaptive", "mtp-loses-ornith", "mtp-loses-ornith-nvfp4",
        "mtp-wins-qwen38", "nemotron-spec", "mtp-n-mismatch",
    ),
)  # fmt: skip


ERRORS = ("breaks-output", "does-not-start", "excluded")
FOUND = {
    "breaks-output": "it corrupts the text", "does-not-start": "the engine does not start with it",
    "excluded": "it was excluded", "loses": "it is slower than none",
}  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each verdict on this method that speaks against it."""
    method = speculation_method(subject)
    for verdict in subject.specs.model.speculation if speculates(subject) else ():
        if verdict.method not in (method, "any"):
            continue
        if verdict.verdict in FOUND:
            cited = f" ({', '.join(verdict.evidence)})" if verdict.evidence else ""
            yield Hit(
                speculation_place(subject),
                f"{method} speculation on {subject.plan.model.slug}: {FOUND[verdict.verdict]}{cited}",
                verdict.reason or "the model spec keeps this verdict",
                "set speculation.method to off, or cite a newer run in the model spec",
                severity=Severity.ERROR if verdict.verdict in ERRORS else Severity.WARNING,
            )
        elif verdict.verdict == "wins" and verdict.tokens not in (None, draft_tokens(subject)):
            what = f"{method} won on {subject.plan.model.slug} with {verdict.tokens} draft tokens, not {draft_tokens(subject)}"
            why = "verification grows with depth, acceptance does not"
            yield Hit(speculation_place(subject), what, why, f"set speculation.tokens to {verdict.tokens}", severity=Severity.INFO)
