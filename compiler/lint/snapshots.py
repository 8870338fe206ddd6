"""How much a flag snapshot proves about the engine in hand."""

from __future__ import annotations

from compiler.diagnostics import Severity
from compiler.lint.facts import version
from compiler.lint.rule import Subject


def is_foreign(subject: Subject) -> bool:
    """True when the flag snapshot was taken from another release than the engine's."""
    return version(subject.specs.flags.release) != version(subject.plan.engine.release)


def refusal(subject: Subject) -> str:
    """Why an option that the snapshot does not have hurts; where the snapshot is another release's, that the engine in hand may know it."""
    if is_foreign(subject):
        return f"vLLM {subject.specs.flags.release} refuses the whole command line; whether {subject.plan.engine.release} does is not known here"
    return "the engine refuses its whole command line and never starts"


def weight(subject: Subject) -> Severity | None:
    """Severity of what only the snapshot shows: the rule's own, or a warning when the snapshot is another release's."""
    return Severity.WARNING if is_foreign(subject) else None
