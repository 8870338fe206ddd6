"""Something needs a Hub token, and the pod gets none for certain.

## What it flags
A gated model from the Hub, a journal, a compile cache without a required secret `HF_TOKEN`; as an information, with
one that the profile does not name and podwright adds.

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
            ("the gated model", plan.model.gated and plan.model.fetched),
            ("the journal", plan.journal),
            ("the compile cache", plan.compile_cache),
        )
        if is_used
    ]
    verb = f"{' and '.join(needs)} need{'s' if len(needs) == 1 else ''}"
    named, added = subject.specs.profile.secrets, next((s for s in plan.secrets if s.env == "HF_TOKEN" and s.required), None)
    if needs and added and not any(s.env == "HF_TOKEN" for s in named):
        what = f"{verb} HF_TOKEN, and the profile does not name it: the pod reads the provider's secret {added.provider_name}"
        fix = "create that secret, or add {env: HF_TOKEN, purpose: ...} under `secrets`"
        yield Hit(subject.place("profile", "secrets"), what, "without it the pod stops at its start", fix, severity=Severity.INFO)
    if needs and not any(s.env == "HF_TOKEN" and s.required for s in plan.secrets):
        what = f"{verb} HF_TOKEN, and it is not a required secret"
        fix = "add {env: HF_TOKEN, purpose: ...} under `secrets`"
        yield Hit(subject.place("profile", "secrets"), what, "the Hub refuses, and a pod cannot be given a secret later", fix)
