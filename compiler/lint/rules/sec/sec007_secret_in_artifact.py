"""Something in the bundle looks like a secret.

## What it flags
Any file of the bundle in which a text has the shape of a token or a private key. The text itself is not shown.

## Why it hurts
Bundles are published, copied to registries and sent to the provider; what was once in an image layer is lost.

## Example
    notes: [the old token was hf_...]

## Use instead
Take it out of the spec, revoke it, and name a secret instead.

## When to ignore
Never: reword the text if it is no secret.

## Source
The shapes in `compiler/secrets.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.built import texts
from compiler.lint.rule import Hit, Rule, Subject
from compiler.secrets import find_secrets

RULE = Rule(code="SEC007", name="secret-in-artifact", severity=Severity.ERROR, stage="artifacts")

STATIC = "image/"  # podwright's own files and the engine's lock: nothing of a spec gets into them.


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each file and kind."""
    for path, text in texts(subject):
        if path.startswith(STATIC):
            continue
        for kind in sorted({span.kind for span in find_secrets(text)}):
            what = f"{path} holds what looks like a secret ({kind})"
            yield Hit(Place(path), what, "bundles are published and copied", "find it in the specs, take it out and revoke it")
