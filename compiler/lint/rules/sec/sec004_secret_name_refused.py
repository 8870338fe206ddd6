"""The provider refuses the name of a secret.

## What it flags
A secret whose name at the provider starts with `RUNPOD`, in any case.

## Why it hurts
RunPod reserves that prefix: the secret cannot be created, and its reference stays in the variable as text.

## Example
    secrets: [{env: HF_TOKEN, name: runpod-hf, purpose: Hub}]

## Use instead
    secrets: [{env: HF_TOKEN, name: hf-token, purpose: Hub}]

## When to ignore
Never.

## Source
RunPod's REST v2 pages on secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC004", name="secret-name-refused", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each reserved name; the variable's own name counts where no other is given."""
    for index, secret in enumerate(subject.specs.profile.secrets):
        planned = next((s.provider_name for s in subject.plan.secrets if s.env == secret.env), "")
        if planned.lower().startswith("runpod"):
            what = f"a secret cannot be called {planned}"
            yield Hit(
                subject.place("profile", "secrets", index), what, "RunPod reserves names that start with RUNPOD", "choose another `name`"
            )
