"""Something needs a Hub token, and the pod gets none for certain.

## What it flags
A gated model, a journal, a compile cache without a required secret `HF_TOKEN`.

## Why it hurts
The download is refused: `Cannot access gated repo`; or journal and cache fail at their first write, when nobody looks.

## Example
    secrets: [{env: HF_TOKEN, required: false, purpose: faster reads}]

## Use instead
    secrets: [{env: HF_TOKEN, purpose: reads the gated model}]

## When to ignore
Never.

## Source
vllm case gated-offline; what journal and cache do.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC005", name="hub-token-missing", severity=Severity.ERROR, traps=("gated-offline",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the token may be absent."""
    plan = subject.plan
    needs = [
        name
        for name, is_used in (
            ("the gated model", plan.model.gated),
            ("the journal", plan.journal),
            ("the compile cache", plan.compile_cache),
        )
        if is_used
    ]
    if needs and not any(s.env == "HF_TOKEN" and s.required for s in plan.secrets):
        what = f"{' and '.join(needs)} need{'s' if len(needs) == 1 else ''} HF_TOKEN, and it is not a required secret"
        fix = "add {env: HF_TOKEN, purpose: ...} under `secrets`"
        yield Hit(subject.place("profile", "secrets"), what, "the Hub refuses, and a pod cannot be given a secret later", fix)
