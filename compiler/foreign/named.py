"""What a model's name alone says: the family whose parsers it needs, where no spec describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.launch import Launch
from compiler.foreign.options import Arguments
from compiler.lint.parsers import REASONING, TOOL

_SIZE = re.compile(r"(?:\d+x)?[ae]?\d+(?:\.\d+)?[bm]", re.IGNORECASE)
_PUBLISHER = re.compile(r"^(?:meta|nvidia|ibm|openai)_")
# Names that hold two families: which markup such a model kept, nobody can tell from outside.
_MIXED = re.compile(r"distill|hermes|merge|tulu|dolphin|nemo(?!tron)|abliterat|coder_tool|function")
# Plain <think> marks, which many families write beside their own parser's; only these have other marks.
_PLAIN, _OWN_MARKS = "deepseek_r1", re.compile(r"gpt_oss|gemma|mistral|magistral|granite|seed_oss")
_OPTIONS: tuple[tuple[str, Mapping[str, str]], ...] = (("tool_call_parser", TOOL), ("reasoning_parser", REASONING))


def family_named(model: str) -> str | None:
    """The family as the parsers' patterns spell it: the name's words up to its size. None for a mixed name.

    >>> family_named("Qwen/Qwen3-Coder-30B-A3B-Instruct"), family_named("Qwen/Qwen3-8B-AWQ"), family_named("zai-org/GLM-4.5-Air-FP8")
    ('qwen3_coder', 'qwen3', 'glm_4_5_air_fp8')
    """
    words: list[str] = []
    for word in re.split(r"[-_ ]", PurePosixPath(model).name.lower()):
        if _SIZE.fullmatch(word):
            break
        words.append(word.replace(".", "_"))
    name = _PUBLISHER.sub("", "_".join(words))
    families = [key for key in ("qwen", "llama", "deepseek", "nemotron", "mistral", "gemma", "glm", "kimi", "phi") if key in name]
    return None if _MIXED.search(name) or len(families) > 1 else name


def parser_findings(launch: Launch, read: Arguments) -> Iterator[Diagnostic]:
    """A warning for each parser that belongs to other families than the one that the model's name says."""
    if read.model is None or read.model.unknown or "tool_parser_plugin" in read.options:
        return
    name = family_named(read.model.text)
    for option, table in _OPTIONS:
        given = read.options.get(option)
        row = table.get(given.value) if given is not None and not given.unknown and isinstance(given.value, str) else None
        own = [parser for parser, pattern in table.items() if name and re.fullmatch(pattern, name)]
        suits = given is None or given.value in own or (given.value == _PLAIN and not _OWN_MARKS.match(name or ""))
        if given is None or row is None or not own or suits:
            continue
        what = f"{given.value} reads the markup of other families than that of `{read.model.text}`, by its name"
        why = "Calls then stay in the text, or thoughts in the answer, and nothing in the log says so."
        yield launch.source.finding(
            "CMD016", Severity.WARNING, what, why, f"Take {' or '.join(own)}, where the release has it.", given.span
        )
