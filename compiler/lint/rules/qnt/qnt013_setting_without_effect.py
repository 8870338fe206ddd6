"""A setting is chosen that was measured, or read in the source, to change nothing.

## What it flags
`optimization_level: 3` (equal to 2), `mamba_ssu_algorithm: simple`, and a forced `quantization: modelopt_fp4` for a
checkpoint that says so itself.

## Why it hurts
Settings that change nothing make the next reader believe that they do, and a later release may give them an effect
that nobody measured.

## Example
    settings: {optimization_level: 3}
    engine_args: {mamba_ssu_algorithm: simple}

## Use instead
Remove them.

## When to ignore
When a release notes an effect and it was measured here.

## Source
`nemotron-ada-ssu-simple-solo`, `nemotron-pro6000-O3-solo`; the 0.27.1 source.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT013", name="setting-without-effect", severity=Severity.INFO,
    traps=("o3-equals-o2", "ssu-simple-no-effect", "nemotron-v76-recipe"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each idle setting."""
    idle = (
        ("optimization_level", subject.setting("optimization_level") == 3, "level 3 is level 2 in this engine"),
        ("mamba_ssu_algorithm", subject.setting("mamba_ssu_algorithm") == "simple", "210.0 against 211.4 tokens a second: noise"),
        ("quantization", subject.setting("quantization") == "modelopt_fp4", "the checkpoint's own config selects it"),
    )
    for name, applies, why in idle:
        if applies:
            place = subject.setting_place(name)
            yield Hit(place, f"{name} {subject.setting(name)} changes nothing", why, f"remove {name}", edit=Edit("remove", place))
