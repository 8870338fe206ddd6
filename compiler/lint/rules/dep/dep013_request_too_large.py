"""A request to the provider is larger than it takes.

## What it flags
Template and pod request together above 102,400 bytes, or one word of the start command above 128 KiB.

## Why it hurts
RunPod answers 413; and Linux refuses to start a program with such a word: `Argument list too long`.

## Example
    container: {prebaked: false}          # with very long notes

## Use instead
    container: {prebaked: true}

## When to ignore
Never.

## Source
RunPod's REST v2 pages of 2026-10; MAX_ARG_STRLEN of Linux.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP013", name="request-too-large", severity=Severity.ERROR, stage="artifacts")

REQUEST_LIMIT, WORD_LIMIT = 102_400, 128 * 1024


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each request that is too large, and for each word that is too long."""
    for path in ("runpod-template.json", "runpod-pod.json"):
        body = json.loads(subject.artifacts[path].content) if path in subject.artifacts else {}
        size = len(json.dumps(body, separators=(",", ":")).encode())
        if size > REQUEST_LIMIT:
            yield Hit(
                Place(path),
                f"the request has {size:,} bytes",
                f"RunPod takes {REQUEST_LIMIT:,}",
                "bake the image, so that the request need not carry the bootstrap",
            )
    command = subject.artifacts.get("start-command.json")
    for word in json.loads(command.content) if command else ():
        if len(str(word).encode()) >= WORD_LIMIT:
            yield Hit(
                Place("start-command.json"),
                f"a word of {len(str(word).encode()):,} bytes",
                "Linux takes less than 131,072",
                "bake the image",
            )
