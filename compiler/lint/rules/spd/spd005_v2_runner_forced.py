"""A model runner is forced that lacks what this profile uses.

## What it flags
`VLLM_USE_V2_MODEL_RUNNER=1` with n-gram speculation, dual batch overlap, elastic experts, prompt embeddings, logits
processors, encoder transfer or KV-sharing fast prefill; `=0` with a DSpark draft. An information on releases that learned it.

## Why it hurts
The engine refuses: `Model Runner V2 does not yet support ...`; DSpark exists in that runner only.

## Example
    env: {VLLM_USE_V2_MODEL_RUNNER: "1"}
    speculation: {method: ngram, tokens: 24}

## Use instead
Leave the variable unset: the engine chooses the runner.

## When to ignore
Never: the engine refuses.

## Source
`_get_v2_model_runner_unsupported_features` of 0.26 to 0.33; vllm#43808.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place, older, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD005", name="v2-runner-forced", severity=Severity.ERROR, traps=("v2-runner-forced",), refusal=True)


VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
# What the runner lacks, and the first release whose list of such things is without it.
SETTINGS: dict[str, tuple[int, ...]] = {
    "enable_dbo": (0, 30), "enable_elastic_ep": (0, 32), "enable_prompt_embeds": (0, 29), "logits_processors": (0, 32),
    "ec_transfer_config": (0, 28), "enable_return_routed_experts": (0, 28), "kv_sharing_fast_prefill": (0, 30),
}  # fmt: skip
METHODS: dict[str, tuple[int, ...]] = {"ngram": (0, 32), "ngram_gpu": (0, 32), "medusa": (0, 33), "suffix": (99,)}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each thing that the forced runner lacks."""
    forced, method = environment(subject, VARIABLE), speculation_method(subject)
    asked = {name: until for name, until in SETTINGS.items() if subject.setting(name)}
    asked |= {f"{method} speculation": METHODS[method]} if method in METHODS else {}
    place = environment_place(subject, VARIABLE)
    for name, until in asked.items() if forced == "1" else ():
        what = f"{VARIABLE}=1 with {name}"
        if older(subject, *until):
            yield Hit(place, what, "the V2 runner does not support it, and the engine refuses", "unset it", edit=Edit("remove", place))
        else:
            yield Hit(place, what, f"releases before {until[0]}.{until[1]} refuse it", "unset it if they must serve too", severity=Severity.INFO)
    if forced == "0" and method == "dspark":
        what = f"{VARIABLE}=0 with a DSpark draft"
        yield Hit(environment_place(subject, VARIABLE), what, "DSpark exists only in the V2 runner", "unset it, or drop the draft")
