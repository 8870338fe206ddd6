"""A secret stands in the environment in clear.

## What it flags
A variable whose name ends in token, key, secret or password, or that is among the secrets, with a value in `env`.

## Why it hurts
Specs are shared and kept in version control, and the pod's environment can be read back through the provider's
interface. A desktop with a password from a spec has a password that everybody knows.

## Example
    env: {VNC_PASSWORD: SECRET}

## Use instead
    secrets: [{env: VNC_PASSWORD, purpose: the remote desktop}]

## When to ignore
Never.

## Source
vllm case token-plain-in-pod; the documents' default desktop password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.schema.specset import SpecKind

RULE = Rule(
    code="SEC002", name="secret-in-clear", severity=Severity.ERROR,
    traps=("vnc-default-password", "apt-incident", "token-plain-in-pod"),
)  # fmt: skip

# What ends like this is a secret; names of files, of other variables and counts of tokens end differently.
NAME = re.compile(r"(^|_)(TOKEN|API_?KEY|SECRET(_KEY)?|PASSWORD|PASSWD|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE)
KINDS: tuple[SpecKind, ...] = ("profile", "model", "hardware", "engine")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each such variable of any spec."""
    secret = {s.env for s in subject.plan.secrets}
    for kind in KINDS:
        for name, choice in getattr(subject.specs, kind).env.items():
            if choice.value and (name in secret or NAME.search(name)):
                why = "specs are shared, and a pod's environment can be read back"
                fix = "take the value away, create a secret at the provider, and name it under `secrets`"
                yield Hit(subject.place(kind, "env", name), f"{name} stands there in clear", why, fix, on_key=True)
