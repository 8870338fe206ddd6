"""A model runner is forced that lacks what this profile uses.

## What it flags
`VLLM_USE_V2_MODEL_RUNNER=1` with n-gram speculation, dual batch overlap, elastic experts, prompt embeddings, logits
processors, encoder transfer or KV-sharing fast prefill; `=0` with a DSpark draft.

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
0.27.1's `_get_v2_model_runner_unsupported_features`; vllm#43808.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD005", name="v2-runner-forced", severity=Severity.ERROR, traps=("v2-runner-forced",), refusal=True)


VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
SETTINGS = (
    "enable_dbo", "enable_elastic_ep", "enable_prompt_embeds", "logits_processors", "ec_transfer_config",
    "enable_return_routed_experts", "kv_sharing_fast_prefill",
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each thing that the forced runner lacks."""
    forced, method = environment(subject, VARIABLE), speculation_method(subject)
    lacking = [name for name in SETTINGS if subject.setting(name)]
    if method in ("ngram", "ngram_gpu", "suffix", "medusa"):
        lacking.append(f"{method} speculation")
    if forced == "1":
        for name in lacking:
            what = f"{VARIABLE}=1 with {name}"
            place = environment_place(subject, VARIABLE)
            yield Hit(place, what, "the V2 runner does not support it, and the engine refuses", "unset it", edit=Edit("remove", place))
    elif forced == "0" and method == "dspark":
        what = f"{VARIABLE}=0 with a DSpark draft"
        yield Hit(environment_place(subject, VARIABLE), what, "DSpark exists only in the V2 runner", "unset it, or drop the draft")
