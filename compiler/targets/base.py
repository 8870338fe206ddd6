"""What a target is: a module that adds to the common artifacts what one place to run needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from compiler.artifact import Artifact
from compiler.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a caller may choose about a target's files. `api` is the provider's interface that request bodies are for."""

    api: Literal["v2", "v1"] = "v2"


DEFAULT_OPTIONS = TargetOptions()


class TargetError(ValueError):
    """The place to run would refuse the plan. `problems` says everything that it would refuse, one sentence each."""

    def __init__(self, target: str, problems: Sequence[str]) -> None:
        super().__init__(f"{target}: " + "; ".join(problems))
        self.problems = tuple(problems)


class Target(Protocol):
    """The module of a target. All of it is pure. `command` is the pod's whole argv, from `compiler.render.start_command`."""

    NAME: str

    def request_problems(self, plan: Plan, command: Sequence[str], options: TargetOptions) -> list[str]:
        """What the place to run would refuse in this plan, one sentence each; empty when nothing."""
        ...

    def bundle_artifacts(self, plan: Plan, command: Sequence[str], options: TargetOptions) -> list[Artifact]:
        """The target's own files. Raises TargetError when `request_problems` finds any."""
        ...

    def deploy_notes(self, plan: Plan, options: TargetOptions) -> tuple[str, ...]:
        """How a person starts the bundle by hand: Markdown paragraphs for PLAN.md, in order."""
        ...

    def schemas(self, options: TargetOptions) -> Mapping[str, str]:
        """The documents that the files follow, by name, with their dates, for bundle.lock."""
        ...
