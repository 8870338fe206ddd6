"""The YaRN factor does not match the window.

## What it flags
A factor that is too small for the window (an error), above what was proven for the model, at least a third larger
than the window needs, or applied at a window within the native context.

## Why it hurts
YaRN as served is static: it rescales every position, also those of short prompts. A factor larger than needed costs
quality for nothing; a smaller one leaves the last part of the window beyond the rope.

## Example
    settings: {max_model_len: 393216}      # 1.5 x 262,144
    yarn_factor: 4

## Use instead
    settings: {max_model_len: 393216}
    yarn_factor: 1.5

## When to ignore
When a needle beyond the native length was found with this very factor; cite it.

## Source
Bootstrap: factor 2 by default for Qwen3.8, 4 for a million tokens; `a40-ornith-needle-634k-bf16`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX005", name="yarn-factor-unlike-window", severity=Severity.WARNING, traps=("yarn-static-cost",))


SLACK = 4 / 3


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each way in which factor and window disagree."""
    factor, model, window = subject.plan.model.yarn_factor, subject.plan.model, subject.plan.engine.max_model_len
    if factor is None:
        return
    place = subject.place("profile", "yarn_factor") if subject.specs.profile.yarn_factor else subject.place("model", "context", "yarn")
    needed, yarn = window / model.native_context, subject.specs.model.context.yarn
    fix = f"set yarn_factor to {max(1.0, needed):.2f}" if needed > 1 else "remove yarn_factor"
    if factor * model.native_context < window:
        what = f"YaRN factor {factor:g} reaches {factor * model.native_context:,.0f} tokens, the window is {window:,}"
        yield Hit(place, what, "positions beyond the stretched range give noise", fix, severity=Severity.ERROR)
    elif factor >= needed * SLACK:
        what = f"YaRN factor {factor:g} for a window of {window:,} tokens, which needs {max(1.0, needed):.2f}"
        yield Hit(place, what, "static YaRN rescales short prompts too, the more the larger the factor", fix)
    if yarn is not None and yarn.max_factor is not None and factor > yarn.max_factor:
        what = f"YaRN factor {factor:g} is above {yarn.max_factor:g}, the largest that was proven for {model.slug}"
        yield Hit(place, what, "no needle was ever found that far", f"stay at {yarn.max_factor:g} or less")
