"""What rules of the artifacts stage look at: the text of a bundle's files, and a Dockerfile's instructions."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Place
from compiler.lint.rule import Subject


def texts(subject: Subject) -> Iterator[tuple[str, str]]:
    """Path and text of each artifact in order of paths; bytes that are no UTF-8 are replaced."""
    for path in sorted(subject.artifacts):
        yield path, subject.artifacts[path].content.decode("utf-8", errors="replace")


def instructions(subject: Subject) -> Iterator[tuple[Place, str, str]]:
    """Place, instruction and the rest of each logical line of the Dockerfile; comments are left out and continuations joined."""
    artifact = subject.artifacts.get("Dockerfile")
    if artifact is None:
        return
    pending = ""
    for line in artifact.content.decode("utf-8", errors="replace").splitlines():
        if line.lstrip().startswith("#"):
            continue
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        word, _, rest = pending.strip().partition(" ")
        if word:
            yield Place("Dockerfile"), word.upper(), rest.strip()
        pending = ""
