"""Rope parameters in an override lack a key that their kind needs.

## What it flags
`hf_overrides` with `rope_parameters` or `rope_scaling` without `rope_type`; of the kind `yarn` without `factor` or
`original_max_position_embeddings`; of the kinds `linear` and `dynamic` without `factor`; and a kind that no release knows.

## Why it hurts
The override replaces what the checkpoint says as a whole, and the engine reads each key by its name: it ends with a `KeyError`
before it loads anything.

## Example
    engine_args:
      hf_overrides: {rope_parameters: {rope_type: yarn, factor: 4.0}}

## Use instead
    yarn_factor: 4      # the compiler writes all of them, where the model spec says

## When to ignore
Never: the engine refuses.

## Source
0.27.1 itself, asked with each key left out (`podwright verify`); runpod-workers/worker-vllm#257, vllm#10293.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="CTX015", name="rope-parameters-incomplete", severity=Severity.ERROR, refusal=True)

# What the rotary embeddings of 0.26.0, 0.27.1 and 0.33.0 compare with.
_KINDS = frozenset({
    "default", "proportional", "llama3", "mllama4", "linear", "ntk", "dynamic", "xdrope", "yarn", "deepseek_yarn", "deepseek_llama_scaling",
    "longrope", "openpangu", "telechat3-yarn", "bailing_mrope", "mrope", "su",
})  # fmt: skip
_NEEDED = {"yarn": ("factor", "original_max_position_embeddings"), "linear": ("factor",), "dynamic": ("factor",)}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each override that lacks something."""
    for given in _overrides(mapping(subject, "hf_overrides")):
        kind = given.get("rope_type", given.get("type"))
        missing = ["rope_type"] if kind is None else [key for key in _NEEDED.get(str(kind), ()) if given.get(key) is None]
        if missing:
            what = f"rope parameters without {' and '.join(missing)}"
            fix = "set yarn_factor and drop the override, or write rope_type, factor and original_max_position_embeddings"
            yield Hit(option_place(subject, "hf_overrides"), what, "the engine ends with a KeyError before it loads anything", fix)
        elif str(kind) not in _KINDS:
            near = difflib.get_close_matches(str(kind), _KINDS, n=1, cutoff=0.5)
            what, fix = f"no release knows a rope of the kind {kind}", f"did you mean {near[0]}?" if near else "write yarn, or set yarn_factor alone"
            yield Hit(option_place(subject, "hf_overrides"), what, "the engine ends with `Unknown RoPE scaling type`", fix)


def _overrides(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Rope parameters at the top and in the text part; those that are nested by kinds of layers, one by one."""
    for part in (given, given.get("text_config")):
        for name in ("rope_parameters", "rope_scaling"):
            rope = part.get(name) if isinstance(part, Mapping) else None
            if isinstance(rope, Mapping) and rope:
                nested = [value for value in rope.values() if isinstance(value, Mapping)]
                yield from nested if len(nested) == len(rope) else [rope]
