"""Pods keep a compile cache that none of them can use: the endpoint has no key to seal archives with.

## What it flags
`compile_cache` beside `bridge.require_key: false`.

## Why it hurts
Compiled code runs in the engine. A pod takes an archive only with a mark that needs the endpoint's key, so that a writer of the dataset
cannot run code in it. Without a key nothing is restored or published, and every start compiles.

## Example
    bridge: {require_key: false}
    compile_cache: {repo: me/graphs}

## Use instead
    bridge: {require_key: true}

## When to ignore
Never: take `compile_cache` out instead.

## Source
How the runtime seals: docs/compile-cache.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC009", name="compile-cache-unsealed", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit where archives cannot be sealed."""
    cache = subject.plan.compile_cache
    if cache is not None and subject.plan.bridge.api_key_env is None:
        yield Hit(
            subject.place("profile", "compile_cache", "repo"),
            f"the compile cache in {cache.repo} is never used",
            "an endpoint without a key has nothing to seal archives with, so every start compiles",
            "set bridge.require_key: true, or remove compile_cache",
        )
