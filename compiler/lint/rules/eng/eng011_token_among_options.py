"""A token stands among the engine's options.

## What it flags
`hf_token` among the arguments, or a value of any option that looks like a token or holds a key with such a name.

## Why it hurts
The engine prints its non-default arguments when it starts, and 0.27.1 does not hide this one; the journal and the
provider's logs then keep the token. Pod requests can be read back as well.

## Example
    engine_args: {hf_token: true}

## Use instead
    secrets: [{env: HF_TOKEN, purpose: read the model}]

## When to ignore
Never.

## Source
NVIDIA-NeMo reports of tokens in logged arguments (cases hf-token-arg-logged, token-in-overrides).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options
from compiler.secrets import find_secrets

RULE = Rule(code="ENG011", name="token-among-options", severity=Severity.ERROR, traps=("hf-token-arg-logged", "token-in-overrides"))

NAME = re.compile(r"(^|_)(token|api_?key|secret|password)$", re.IGNORECASE)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each option that carries a token."""
    for written in written_options(subject):
        if written.dest == "hf_token" or any(_is_secret(key, value) for key, value in _leaves(written.dest, written.choice.value)):
            what = f"`{written.key}` carries a token on the command line"
            why = "the engine prints its arguments at start, and logs and the pod's description keep them"
            yield Hit(written.place, what, why, "name it under `secrets`; the pod reads it from its environment")


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _leaves(str(inner), item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(key, item)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            yield from _leaves(key, json.loads(value))
        except (ValueError, RecursionError):
            yield key, value
    else:
        yield key, value


def _is_secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and bool(find_secrets(value) or (NAME.search(key) and key != "api_key" and value))
