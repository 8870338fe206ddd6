"""What the user gave to starts of an engine: a command, or files that are scripts, Compose files, manifests or values of a chart."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.compose import compose_launches, is_compose
from compiler.foreign.files import loaded, opened
from compiler.foreign.helm import is_stack_values, placeholder_finding, stack_launches, template_finding
from compiler.foreign.kubernetes import ConfigMaps, config_maps, is_kubernetes, kubernetes_launches
from compiler.foreign.launch import Launch, launches_in
from compiler.foreign.option_file import with_option_file
from compiler.foreign.source import Source, Span, Word
from compiler.foreign.variables import plain_env_file_values
from compiler.foreign.yaml_tree import Tree, documents

COMMAND = "--command"
MAX_FILES = 500  # Of a folder: what people apply together is some dozen files.
_YAML = frozenset({".yaml", ".yml"})
_NONE = "no start of a vLLM engine in it: neither `vllm serve`, nor its server's module, nor a container of an image of vLLM"
_OTHER = (
    "YAML without `services`, without `apiVersion` and without `servingEngineSpec`: no Compose file, no Kubernetes manifest, no values of the "
    "vLLM production stack"
)
_GIVE = "Give the file that starts the engine, or the whole command with --command, for instance: vllm serve ORG/MODEL --max-model-len 32768"


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What was given, the starts of an engine in it, and what is wrong with it before any rule looks."""

    source: Source
    launches: tuple[Launch, ...]
    problems: tuple[Diagnostic, ...]


@dataclasses.dataclass(slots=True)
class _File:
    """One YAML file of those that were given: its documents, and what is wrong with it."""

    source: Source
    trees: list[Tree]
    problems: list[Diagnostic]


def read_command(text: str) -> Read:
    """A command line as somebody would paste it, over as many lines as it takes. Files that it names are looked for where it was typed."""
    source = Source(COMMAND, text)
    launches, problems = launches_in(source, source.whole())
    return _read(source, launches, problems, Path())


def read_file(file: Path) -> Read:
    """A file as what it is, or all YAML files of a folder together: services, containers and models, else shell text."""
    if file.is_dir():
        return _folder(file)
    source, problem = loaded(file)
    if problem is not None:
        return Read(source, (), (problem,))
    if file.suffix.lower() not in _YAML and not _looks_like_yaml(source.text):
        launches, problems = launches_in(source, source.whole())
        return _read(source, launches, problems, file.parent)
    given = _parsed(source)
    launches = _launches(given, config_maps(given.trees), file.parent)
    if given.trees and not any(is_compose(tree) or is_kubernetes(tree) or is_stack_values(tree) for tree in given.trees):
        given.problems = [_nothing(source, _OTHER)]
    if not launches and not given.problems and (unfilled := placeholder_finding(source)) is not None:
        given.problems = [unfilled]
    return _read(source, launches, given.problems, file.parent)


def _folder(folder: Path) -> Read:
    """Manifests that are applied together: a ConfigMap of one file counts for all. Files that start nothing say nothing."""
    source = Source(folder.as_posix(), "")
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix.lower() in _YAML)
    except OSError as error:
        what = f"it cannot be read: {error.strerror}"
        return Read(
            source, (), (source.finding("CMD001", Severity.ERROR, what, "Nothing in it can be judged.", "Give a file.", Span(0, 1)),)
        )
    files, problems = [], []
    for name in names[:MAX_FILES]:
        text, problem = loaded(name)
        files += [_parsed(text)] if problem is None else []
        problems += [problem] if problem is not None else []
    if len(names) > MAX_FILES:
        what = f"{len(names):,} YAML files, of which the first {MAX_FILES} are read"
        problems.append(
            source.finding("CMD001", Severity.WARNING, what, "What the others start is not judged.", "Give a smaller folder.", Span(0, 1))
        )
    maps = config_maps(tree for file in files for tree in file.trees)
    launches: list[Launch] = []
    for file in files:
        found = _launches(file, maps, folder)
        problems += file.problems
        for launch in found:
            whole, more = _with_files(launch, folder)
            launches.append(whole)
            problems += more
    if not launches and not any(d.is_error for d in problems):
        problems.append(_nothing(source, _NONE))
    return Read(source, tuple(launches), tuple(problems))


def _parsed(source: Source) -> _File:
    template = template_finding(source)
    if template is not None:
        return _File(source, [], [template])
    trees, problems = documents(source)
    return _File(source, trees, [placeholder_finding(source) or problems[0], *problems[1:]] if problems else [])


def _launches(file: _File, maps: ConfigMaps, folder: Path) -> list[Launch]:
    """Starts in one file; what is wrong with them is added to the file's problems."""
    launches: list[Launch] = []
    for tree in file.trees:
        if is_compose(tree):
            found, problems = compose_launches(file.source, tree, folder)
        elif is_kubernetes(tree):
            found, problems = kubernetes_launches(file.source, tree, maps)
        elif is_stack_values(tree):
            found, problems = stack_launches(file.source, tree)
        else:
            continue
        launches += found
        file.problems += problems
    return launches


def _read(source: Source, launches: Iterable[Launch], problems: list[Diagnostic], folder: Path) -> Read:
    """The launches with the option files that they name, where nothing is wrong that would make every word doubtful."""
    # After an open quote nobody knows which words belong to which option.
    doubtful = any(d.is_error and d.code != "CMD010" for d in problems)
    found: list[Launch] = []
    for launch in [] if doubtful else launches:
        whole, more = _with_files(launch, folder)
        found.append(whole)
        problems = [*problems, *more]
    if not found and not doubtful:
        problems = [*problems, _nothing(source, _NONE)]
    return Read(source, tuple(found), tuple(problems))


def _with_files(launch: Launch, folder: Path) -> tuple[Launch, list[Diagnostic]]:
    """The launch with what it reads from files: variables of `docker run --env-file`, and options."""
    problems: list[Diagnostic] = []
    env: dict[str, Word] = {}
    for name in launch.env_files:
        text = f"its name hangs on {', '.join(name.unknown)}" if name.unknown else opened(name.text, None, folder)
        if isinstance(text, str):
            fix = "Put it where the command looks for it, to have it judged."
            problems.append(
                launch.source.finding(
                    "CMD005",
                    Severity.WARNING,
                    f"`{name.text}` is not read: {text}",
                    "Variables that it sets are not judged.",
                    fix,
                    name.span,
                )
            )
        else:
            env |= plain_env_file_values(text.source.text, name.span)
    whole, more = with_option_file(dataclasses.replace(launch, env={**env, **launch.env}), folder)
    return whole, [*problems, *more]


def _nothing(source: Source, what: str) -> Diagnostic:
    return source.finding(
        "CMD003", Severity.ERROR, what, "Nothing in it can be judged.", _GIVE, Span(0, max(1, len(source.text.split("\n")[0])))
    )


def _looks_like_yaml(text: str) -> bool:
    return re.search(r"^(services|apiVersion|servingEngineSpec):", text, re.MULTILINE) is not None
