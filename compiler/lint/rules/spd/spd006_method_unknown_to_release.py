"""The engine release does not know the method of speculation.

## What it flags
A method outside the release's own list, or DFlash on a release whose spec lacks the feature `dflash`.

## Why it hurts
The engine refuses the speculative configuration. Second-generation DFlash drafts were merged after 0.27.1.

## Example
    engine: vllm-0.27.1
    speculation: {method: dflash, tokens: 7, draft: {repo: z-lab/Qwen3.8-27B-DFlash2}}

## Use instead
A release that has it (its spec lists `dflash` under `features`), or another method.

## When to ignore
Never: the engine refuses.

## Source
PR 52816 of the engine, merged on 2026-08-21; the flag snapshot of each release.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD006", name="method-unknown-to-release", severity=Severity.ERROR, traps=("dflash2-nightly",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the release lacks the method."""
    method = speculation_method(subject)
    raw = str(mapping(subject, "speculative_config").get("method") or method)
    unknown = speculates(subject) and not subject.specs.flags.knows("speculative_methods", raw)
    lacks_dflash = method == "dflash" and "dflash" not in subject.specs.engine.features
    if unknown or lacks_dflash:
        yield Hit(
            speculation_place(subject),
            f"release {subject.plan.engine.release} cannot run {raw} speculation",
            "the engine refuses the speculative configuration, or fails on the draft's architecture",
            "choose another method, or a release whose spec lists it",
        )
