"""The bridge sends thinking budgets that this engine answers with an error.

## What it flags
A bridge that supports `thinking_token_budget` with the V2 model runner before release 0.28, or with a reasoning model
whose engine has no reasoning parser. That runner before 0.28 with a reasoning model, for it costs the effort levels: a
warning where a variable forces it, an information where DSpark or the engine's own default brings it.

## Why it hurts
Every request with an effort level or a thinking budget is answered 400 (500 behind the bridge): `not yet supported by
the V2 model runner`, or `reasoning_config is not configured`.

## Example
    model: ornith-awq
    speculation: {method: dspark, tokens: 8}      # lives in the V2 runner only

## Use instead
    speculation: {method: off}      # effort levels work again

## When to ignore
The information, when effort levels are not wanted.

## Source
Bootstrap v58; vllm#50473, NVIDIA-NeMo/RL#4220; 0.27.1's input processor.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place, older, on_gpu, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD004", name="thinking-budget-refused", severity=Severity.ERROR, refusal=True,
    traps=("dspark-v2-runner", "effort-patch-order", "thinking-budget-no-parser", "thinking-budget-v2"),
)  # fmt: skip


VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each reason why budgets are refused, and one for what DSpark gives up."""
    plan = subject.plan
    on_v2 = plan.engine.runner == "V2" and older(subject, 0, 28)
    budgets = plan.bridge.mode != "off" and plan.bridge.thinking_budget_supported
    fix = "turn speculation off, or let the bridge send no budgets"
    if budgets and on_v2:
        what = "the bridge sends thinking budgets to the V2 model runner"
        yield Hit(subject.place("profile", "bridge"), what, "each is answered 400", fix)
    if budgets and plan.model.reasoning and not subject.setting("reasoning_parser"):
        what = "the bridge sends thinking budgets, and the engine has no reasoning parser"
        yield Hit(subject.place("profile", "bridge"), what, "each is answered 400", "set reasoning_parser")
    if not on_v2 or not on_gpu(subject) or not plan.model.reasoning or budgets:
        return
    lost = "Claude Code's effort levels have no effect on this endpoint"
    if speculation_method(subject) != "dspark":
        forced = environment(subject, VARIABLE) == "1"
        what = f"the V2 model runner, {'forced by a variable' if forced else 'the default here'}, knows no thinking budgets"
        place, severity = environment_place(subject, VARIABLE), Severity.WARNING if forced else Severity.INFO
        yield Hit(place, what, lost, f'set {VARIABLE} to "0"', severity)
    else:
        yield Hit(
            speculation_place(subject),
            "DSpark runs in the V2 model runner, which knows no thinking budgets",
            lost,
            "keep it for speed, or turn speculation off for effort levels",
            severity=Severity.INFO,
        )
