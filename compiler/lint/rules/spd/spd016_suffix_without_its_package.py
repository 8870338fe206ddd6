"""Drafts by suffixes, and the image has not the package that finds them.

## What it flags
The method `suffix` where no extra of the profile's container brings `arctic-inference`.

## Why it hurts
The engine looks for the package when it reads the speculative configuration, and ends with an ImportError; its own image and its
lock do not have it.

## Example
    engine_args: {speculative_config: {method: suffix}}

## Use instead
    speculation: {method: ngram, tokens: 4}      # or an extra of the engine spec with arctic-inference in the version that it names

## When to ignore
For a base image of your own that has the package.

## Source
`speculative.py` of 0.26.0, 0.27.1 and 0.33.0, which ask for arctic-inference 0.1.1; vllm#25784.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD016", name="suffix-without-its-package", severity=Severity.ERROR)

PACKAGE = "arctic-inference"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no extra brings the package."""
    if speculation_method(subject) != "suffix":
        return
    extras = subject.specs.engine.extras
    chosen = (extras[name].requirement for name in subject.specs.profile.container.extras if name in extras)
    if not any(requirement.lower().replace("_", "-").startswith(PACKAGE) for requirement in chosen):
        what = f"drafts by suffixes, and no extra of the container brings {PACKAGE}"
        yield Hit(speculation_place(subject), what, "the engine ends with an ImportError at its start", "add it as an extra, or take ngram")
