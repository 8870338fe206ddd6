"""Prefixes are hashed with a module that the image lacks.

## What it flags
`prefix_caching_hash_algo: xxhash` or `xxhash_cbor` without the package `xxhash`; as an info, an official image without
it.

## Why it hurts
The engine fails when it first hashes; the logbook saw long contexts fail late on a stock image for lack of a hash
module.

## Example
    engine_args: {prefix_caching_hash_algo: xxhash}

## Use instead
    container: {extras: [xxhash]}

## When to ignore
Where the base image brings it.

## Source
Self-hosting logbook; the engine's optional imports.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="IMG008", name="hash-without-module", severity=Severity.ERROR, traps=("hash-module",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the module is asked for, an info when an official image goes without."""
    algorithm = str(subject.setting("prefix_caching_hash_algo") or "")
    if any(p.requirement.startswith("xxhash") for p in subject.plan.image.packages):
        return
    place = subject.place("profile", "container", "extras")
    if algorithm.startswith("xxhash"):
        place = option_place(subject, "prefix_caching_hash_algo")
        yield Hit(
            place,
            f"prefixes are hashed with {algorithm}, and the image has no xxhash",
            "the engine fails when it first hashes",
            "add xxhash to container.extras",
        )
    elif subject.plan.image.recipe == "vllm-openai":
        what = "the official image may lack the hash module"
        yield Hit(place, what, "long contexts were seen to fail late without it", "add xxhash to container.extras", severity=Severity.INFO)
