"""The Dockerfile takes a secret as a build argument or sets it.

## What it flags
`ARG` or `ENV` whose name ends in token, key, secret or password.

## Why it hurts
Build arguments and variables stay in the image's history, readable by everybody who can pull it.

## Example
    ARG HF_TOKEN

## Use instead
Give secrets to the running pod: `secrets: [{env: HF_TOKEN, ...}]`.

## When to ignore
Never.

## Source
Dockerfile reference; vllm case token-in-build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG010", name="secret-in-build", severity=Severity.ERROR, stage="artifacts", traps=("token-in-build",))

NAME = re.compile(r"\b\w*(TOKEN|API_?KEY|SECRET|PASSWORD|PASSWD|ACCESS_?KEY)\b", re.IGNORECASE)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each such instruction."""
    for place, word, rest in instructions(subject):
        if word in ("ARG", "ENV") and (name := NAME.search(rest.partition("=")[0])):
            yield Hit(
                place,
                f"{word} {name[0]} in the Dockerfile",
                "it stays in the image's history for everybody who pulls it",
                "read it in the running pod, under `secrets`",
            )
