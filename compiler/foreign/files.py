"""Files that a launch opens: beside what was given, behind a container's mounts, or written into a ConfigMap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.source import Piece, Source, Span

MAX_BYTES = 1 << 20  # A manifest is some pages; a megabyte is a wrong file.


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A text to read. `outer` is there for a text that is part of another: that source, and the place in it of each character."""

    source: Source
    outer: tuple[Source, Piece] | None = None

    def place(self, span: Span) -> Span:
        """A span of this text, as a place that a person can open."""
        if self.outer is None:
            return dataclasses.replace(span, source=self.source)
        home, piece = self.outer
        places = piece.offsets[span.start : max(span.end, span.start + 1)] or piece.offsets[-1:] or (0,)
        return Span(min(places), max(places) + 1, home)


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """What a container finds at `target`: a file or a folder of the host, as it was written, or texts by their file names.

    Of texts, the one without a name is a file that lies at the target itself.
    """

    target: str
    path: str = ""
    texts: Mapping[str, Text] = dataclasses.field(default_factory=dict)


def loaded(file: Path) -> tuple[Source, Diagnostic | None]:
    """The text of a file with plain line breaks, or why there is none."""
    empty = Source(file.as_posix(), "")

    def refused(what: str) -> tuple[Source, Diagnostic]:
        why, fix = "Nothing in it can be judged.", "Give a script, a Compose file or a Kubernetes manifest, as UTF-8 text."
        return empty, dataclasses.replace(empty.finding("CMD001", Severity.ERROR, what, why, fix, Span(0, 1)), position=None)

    try:
        if not file.is_file():
            return refused("it is not a file" if file.exists() else "it does not exist")
        if file.stat().st_size > MAX_BYTES:
            return refused(f"it has {file.stat().st_size:,} bytes, and at most {MAX_BYTES:,} are read")
        return Source(file.as_posix(), file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")), None
    except UnicodeDecodeError:
        return refused("it is not UTF-8 text")
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have.
        return refused(f"it cannot be read: {getattr(error, 'strerror', None) or error}")


def opened(name: str, mounts: Sequence[Mount] | None, folder: Path) -> Text | str:
    """The text that a program opens under that name, or why it is not known. `mounts` is None for a program in no container."""
    if mounts is None:
        return _beside(folder, name)
    path = PurePosixPath(name)
    for mount in sorted(mounts, key=lambda mount: -len(mount.target)):
        target = PurePosixPath(mount.target)
        if path != target and target not in path.parents:
            continue
        inner = path.relative_to(target).as_posix()
        if mount.path:
            return _beside(folder, mount.path if inner == "." else f"{mount.path}/{inner}")
        return mount.texts.get("" if inner == "." else inner) or f"no given ConfigMap holds it at {mount.target}"
    return "it lies in the image, or in a volume whose content nobody gave"


def _beside(folder: Path, name: str) -> Text | str:
    try:
        file = folder / Path(name).expanduser()
    except RuntimeError:  # `~name` of a user that is not here
        return f"{name} is in nobody's home here"
    source, problem = loaded(file)
    return Text(source) if problem is None else f"{file.as_posix()}: {problem.what}"
