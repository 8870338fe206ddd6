"""What the user gave to starts of an engine: a command, or a file that is a script, a Compose file or a manifest."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.compose import compose_launches, is_compose
from compiler.foreign.kubernetes import is_kubernetes, kubernetes_launches
from compiler.foreign.launch import Launch, launches_in
from compiler.foreign.source import Source, Span
from compiler.foreign.yaml_tree import documents

MAX_BYTES = 1 << 20  # A manifest is some pages; a megabyte is a wrong file.
COMMAND = "--command"
_YAML = frozenset({".yaml", ".yml"})
_NONE = "no start of a vLLM engine in it: neither `vllm serve`, nor its server's module, nor a container of an image of vLLM"


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What was given, the starts of an engine in it, and what is wrong with it before any rule looks."""

    source: Source
    launches: tuple[Launch, ...]
    problems: tuple[Diagnostic, ...]


def read_command(text: str) -> Read:
    """A command line as somebody would paste it, over as many lines as it takes."""
    source = Source(COMMAND, text)
    launches, problems = launches_in(source, source.whole())
    return _read(source, launches, problems)


def read_file(file: Path) -> Read:
    """A file as what it is: YAML with services or containers, else shell text."""
    source, problem = _loaded(file)
    if problem is not None:
        return Read(source, (), (problem,))
    if file.suffix.lower() not in _YAML and not _looks_like_yaml(source.text):
        launches, problems = launches_in(source, source.whole())
        return _read(source, launches, problems)
    trees, problems = documents(source)
    found: list[Launch] = []
    for tree in trees:
        found += compose_launches(source, tree) if is_compose(tree) else kubernetes_launches(source, tree) if is_kubernetes(tree) else []
    if trees and not any(is_compose(tree) or is_kubernetes(tree) for tree in trees):
        what = "YAML without `services` and without `apiVersion`: neither a Compose file nor a Kubernetes manifest"
        problems = [
            source.finding(
                "CMD003",
                Severity.ERROR,
                what,
                "Nothing in it can be judged.",
                "Give the file that starts the engine, or the command with --command.",
                Span(0, 1),
            )
        ]
    return _read(source, found, problems)


def _read(source: Source, launches: list[Launch], problems: list[Diagnostic]) -> Read:
    if not launches and not any(d.is_error for d in problems):
        fix = "Give the whole command, for instance: vllm serve ORG/MODEL --max-model-len 32768"
        problems = [
            *problems,
            source.finding(
                "CMD003", Severity.ERROR, _NONE, "Nothing in it can be judged.", fix, Span(0, max(1, len(source.text.split("\n")[0])))
            ),
        ]
    # After an open quote nobody knows which words belong to which option.
    is_whole = not any(d.is_error for d in problems)
    return Read(source, tuple(launches) if is_whole else (), tuple(problems))


def _looks_like_yaml(text: str) -> bool:
    return re.search(r"^(services|apiVersion):", text, re.MULTILINE) is not None


def _loaded(file: Path) -> tuple[Source, Diagnostic | None]:
    """The text of a file with plain line breaks, or why there is none."""
    empty = Source(file.as_posix(), "")

    def refused(what: str) -> tuple[Source, Diagnostic]:
        return empty, dataclasses.replace(
            empty.finding(
                "CMD001",
                Severity.ERROR,
                what,
                "Nothing in it can be judged.",
                "Give a script, a Compose file or a Kubernetes manifest, as UTF-8 text.",
                Span(0, 1),
            ),
            position=None,
        )

    try:
        if not file.is_file():
            return refused("it is not a file" if file.exists() else "it does not exist")
        if file.stat().st_size > MAX_BYTES:
            return refused(f"it has {file.stat().st_size:,} bytes, and at most {MAX_BYTES:,} are read")
        return Source(file.as_posix(), file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")), None
    except UnicodeDecodeError:
        return refused("it is not UTF-8 text")
    except OSError as error:
        return refused(f"it cannot be read: {error.strerror}")
