"""`vllm serve --config FILE`: a YAML file of options, put among the words where the engine's own parser puts them.

Seen in the parser of vLLM 0.26.0, 0.27.1 and 0.33.0 (`FlexibleArgumentParser`): the file's options come right behind the model, so that the
command line wins; true is a switch, false is left out, lists are several values, mappings are JSON; `--config=FILE` opens nothing.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.files import Text, opened
from compiler.foreign.launch import Launch
from compiler.foreign.source import Span, Word, word_of
from compiler.foreign.yaml_tree import Tree, documents

OPTION = "--config"
_LAUNCH_REFUSED = "The engine refuses to start."


def with_option_file(launch: Launch, folder: Path) -> tuple[Launch, list[Diagnostic]]:
    """The launch with the options of its file, where that is at hand, and what is wrong with the file."""
    words = launch.words
    for at, word in enumerate(words):
        if word.text.startswith(f"{OPTION}="):
            what = f"the engine does not open a file that is named as `{word.text}`"
            return launch, [
                _finding(launch, "CMD010", what, "None of its options takes effect.", f"Write `{OPTION} FILE`, as two words.", word.span)
            ]
        if word.text == OPTION and at + 1 < len(words):
            return _inserted(launch, at, folder)
    return launch, []


def _inserted(launch: Launch, at: int, folder: Path) -> tuple[Launch, list[Diagnostic]]:
    name = launch.words[at + 1]
    text = f"its name hangs on {', '.join(name.unknown)}" if name.unknown else opened(name.text, launch.mounts, folder)
    if isinstance(text, str):
        what = f"options in `{name.text}` are not read: {text}"
        fix = "Give the file beside this one, or write its options on the command line, to have them judged."
        return launch, [_finding(launch, "CMD005", what, "What stands there is not judged.", fix, name.span)]
    if not name.text.endswith((".yaml", ".yml")):
        what = f"`{name.text}` does not end in .yaml or .yml"
        return launch, [_finding(launch, "CMD007", what, _LAUNCH_REFUSED, "Rename it.", name.span, Severity.ERROR)]
    trees, problems = documents(text.source)
    if problems or len(trees) != 1 or not trees[0].is_mapping:
        why = problems[0].what if problems else "it is no mapping of options to values"
        at_fault = text.place(Span(0, 1))
        return launch, [
            _finding(launch, "CMD001", f"`{name.text}`: {why}", _LAUNCH_REFUSED, "Write `option: value` lines.", at_fault, Severity.ERROR)
        ]
    words, silent = _words(text, trees[0])
    rest = [*launch.words[:at], *launch.words[at + 2 :]]
    first = 1 if rest and not rest[0].text.startswith("-") else 0
    keys = frozenset(word.span for word in words if word.text.startswith("--"))
    return dataclasses.replace(launch, words=(*rest[:first], *words, *rest[first:]), configured=keys, silent=tuple(silent)), []


def _words(text: Text, tree: Tree) -> tuple[list[Word], list[Word]]:
    """The words that the file's options become, and its keys that are false."""
    words: list[Word] = []
    silent: list[Word] = []
    for key, (key_tree, value_tree) in {name: (k, v) for name, k, v in tree.items()}.items():
        key_word, place = word_of(f"--{key}", text.place(key_tree.span)), text.place(value_tree.span)
        value = _value(value_tree)
        if value is False:
            silent.append(key_word)
        elif value is True:
            words.append(key_word)
        elif value != []:
            words += [key_word, *(word_of(item, place) for item in _texts(value))]
    return words, silent


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (str(item) for item in value)
    else:
        yield json.dumps(value, default=str) if isinstance(value, dict) else str(value)


def _value(tree: Tree) -> Any:
    """A node as the engine's YAML reader would give it."""
    try:
        return yaml.SafeLoader("").construct_document(tree.node)
    except (yaml.YAMLError, ValueError, RecursionError):
        return re.sub(r"\s+", " ", tree.text or "")


def _finding(launch: Launch, code: str, what: str, why: str, fix: str, span: Span, severity: Severity = Severity.WARNING) -> Diagnostic:
    return launch.source.finding(code, severity, what, why, fix, span)
