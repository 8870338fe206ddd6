"""All rules, one line each: the file below `compiler/lint/rules`, families in alphabetical order, codes in order.

A rule that has no line here does not run; a test compares the lines with the files.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from types import ModuleType
from typing import cast

from compiler.lint.rule import Rule, RuleModule

FILES = (
    "ign/ign001_unused_ignore",
    "ign/ign002_unknown_ignored_code",
    "ign/ign003_ignored_refusal",
    "mem/mem001_window_does_not_fit",
    "mem/mem002_memory_is_tight",
    "mem/mem003_more_sequences_than_state_blocks",
    "mem/mem004_utilization_above_what_holds",
    "mem/mem005_utilization_lowered_for_nothing",
    "mem/mem006_budget_taken_for_consumption",
    "mem/mem007_fixed_cache_without_measurement",
    "mem/mem008_no_room_for_two_prefills",
    "mem/mem009_dense_model_beside_wsl2_tax",
    "mem/mem010_speculation_index_outside_budget",
    "mem/mem011_vision_tower_loaded_for_text",
    "mem/mem012_thin_margin_on_32_gb_blackwell",
    "mem/mem013_host_offload_under_wsl2",
)


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredRule:
    """One rule with its identity, its page (the docstring of its module) and its check.

    Rules of the stage `ignores` have no check over a subject: the runner asks them about `ignore:` entries.
    """

    rule: Rule
    page: str
    module: ModuleType

    @property
    def checked(self) -> RuleModule:
        """The module as a rule over a subject."""
        return cast("RuleModule", self.module)


@functools.cache
def rules() -> tuple[RegisteredRule, ...]:
    """All registered rules, ordered by code."""
    return tuple(sorted((_registered(file) for file in FILES), key=lambda r: r.rule.code))


def rule_by_code(code: str) -> RegisteredRule | None:
    """The rule with that code; None when no rule has it."""
    return next((r for r in rules() if r.rule.code == code), None)


def _registered(file: str) -> RegisteredRule:
    module = importlib.import_module("compiler.lint.rules." + file.replace("/", "."))
    return RegisteredRule(cast("RuleModule", module).RULE, module.__doc__ or "", module)
