"""How much a flag snapshot proves about the engine in hand."""

from __future__ import annotations

from compiler.diagnostics import Severity
from compiler.lint.facts import version
from compiler.lint.rule import Subject


def is_foreign(subject: Subject) -> bool:
    """True when the flag snapshot was taken from another release than the engine's."""
    return version(subject.specs.flags.release) != version(subject.plan.engine.release)


def weight(subject: Subject) -> Severity | None:
    """Severity of what only the snapshot shows: the rule's own, or a warning when the snapshot is another release's."""
    return Severity.WARNING if is_foreign(subject) else None
