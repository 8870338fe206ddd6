"""What a rule is, and what it may look at.

A rule is one file: its docstring is its page, its `RULE` says code, severity and stage, its `check` yields hits. A rule
reads; it never changes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

from compiler.artifact import Artifact
from compiler.diagnostics import Edit, Place, Severity
from compiler.plan import Plan
from compiler.schema.specset import SpecKind, SpecSet

Stage = Literal["plan", "artifacts", "ignores"]
# Validators in the engine's own configuration (0.26.0 to 0.33.0) change the case of these before anything looks them up.
_ANY_CASE: Mapping[str, Callable[[str], str]] = {
    "attention_backend": str.upper,
    "load_format": str.lower,
    "quantization": str.lower,
    "tokenizer_mode": str.lower,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A check's identity. `traps` are the ids of the recorded failures that it answers.

    `refusal` says that an error of this rule means that the engine does not start: no `ignore:` takes it away.
    `served` says that the engine starts and serves all the same, and only coding agents are failed: in a command of somebody
    else's, of whose clients nothing is known, such an error is a warning.
    """

    code: str
    name: str
    severity: Severity
    stage: Stage = "plan"
    traps: tuple[str, ...] = ()
    refusal: bool = False
    served: bool = False

    @property
    def family(self) -> str:
        """The letters of the code: the folder that the rule lives in, in lower case."""
        return self.code.rstrip("0123456789")


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """One hit of a rule: where, what, why it hurts and what to do. `severity` overrides the rule's own.

    `edit` is for what `podwright lint --fix` may do unasked: one change, the same whoever makes it.
    """

    place: Place
    what: str
    why: str
    fix: str
    severity: Severity | None = None
    on_key: bool = False
    edit: Edit | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What a rule sees: the specs, the plan, and after rendering the artifacts by path."""

    specs: SpecSet
    plan: Plan
    artifacts: Mapping[str, Artifact]

    def setting(self, name: str) -> Any:
        """The decided value of an engine setting by the engine's option name with underscores; None when not decided.

        Names in whose spelling the engine sees no case come as its own tables have them.
        """
        value = next((s.value for s in self.plan.engine.settings if s.name == name), None)
        return _ANY_CASE[name](value) if name in _ANY_CASE and isinstance(value, str) else value

    @property
    def knows_model(self) -> bool:
        """False for a command whose model no spec describes: a rule may then say less instead of nothing."""
        return True

    def place(self, kind: SpecKind, *route: str | int) -> Place:
        """Where a route of a spec was written."""
        return self.specs.place(kind, *route)

    def setting_place(self, name: str) -> Place:
        """Where an engine setting was written: the spec that decided it, else the profile's settings."""
        decision = next((d for d in self.plan.decisions if d.route == f"engine.{name}"), None)
        section = {"profile": "settings", "model": "engine", "hardware": "engine"}
        if decision is None or decision.origin not in section:
            return self.place("profile", "settings")
        kind: SpecKind = decision.origin  # type: ignore[assignment]
        spec = getattr(self.specs, kind)
        in_args = name in getattr(spec, "engine_args", {})
        return self.place(kind, "engine_args" if in_args else section[decision.origin], name)

    @property
    def speculation_place(self) -> Place:
        """Where speculation was chosen."""
        return self.place("profile", "speculation")

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability as numbers, for instance (8, 9)."""
        major, minor = self.plan.hardware.compute_capability.split(".")
        return int(major), int(minor)


class RuleModule(Protocol):
    """The module of a rule: `RULE`, `check`, and a docstring that is the rule's page."""

    RULE: Rule
    __doc__: str | None

    def check(self, subject: Subject) -> Iterator[Hit]:
        """All hits in this subject."""
        ...
