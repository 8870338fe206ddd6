"""The engine's arguments as its release's own parser would read them: option names, typed values, and words that belong to nothing."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.launch import Launch
from compiler.foreign.source import Span, Word, word_of
from compiler.schema.flags import Flag, FlagTable

MODEL_OPTIONS = ("model", "model_tag")
MAX_PROBLEMS = 100  # Nobody reads more; a file that is no command would give one for each word.
# What typesetting makes of two hyphens: an en dash, an em dash, a minus, other hyphens, alone or beside a real one.
_TYPESET = re.compile(r"-?[\u2010-\u2015\u2212]-?(?=[A-Za-z])")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")
# The engine reads a small letter as a power of ten and a capital as one of two.
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_WHY_UNKNOWN = "What depends on it is not judged, and a wrong value would not be seen."


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option: the parser's name for it (the written one where it knows none), its value, where both stand."""

    dest: str
    value: Any
    span: Span
    key_span: Span
    known: bool
    unknown: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """All arguments of a launch. `model` is None where none is named, and its text is no name where it holds a variable."""

    model: Word | None
    options: dict[str, Option]
    problems: tuple[Diagnostic, ...]


class _Parser:
    def __init__(self, launch: Launch, flags: FlagTable) -> None:
        self.launch, self.flags = launch, flags
        self.short = {option: flag for flag in flags.flags.values() for option in flag.options if not option.startswith("--")}
        self.options: dict[str, Option] = {}
        self.model: Word | None = None
        self.problems: list[Diagnostic] = []

    def parsed(self) -> Arguments:
        words, at = _spelled_out(self.launch.words), 0
        while at < len(words):
            word = words[at]
            if _is_option(word):
                at += self._option(words, at)
                continue
            if _TYPESET.match(word.text):
                at += self._typeset(words, at)
                continue
            if self.model is None:
                self.model = word
            else:
                self._stray(word)
            at += 1
        for name in MODEL_OPTIONS:
            option = self.options.pop(name, None)
            if option is not None and isinstance(option.value, str):
                self.model = self.model or dataclasses.replace(word_of(option.value, option.span), unknown=option.unknown)
        return Arguments(self.model, self.options, tuple(self.problems))

    def _option(self, words: Sequence[Word], at: int) -> int:
        """Reads the option at `at` with its values; gives the words that it takes."""
        name, inline = _split(words[at])
        head, dot, path = name.partition(".")
        flag = self._flag(head)
        if flag is None:
            return self._foreign_option(words, at, name, inline)
        if not dot and flag.negative == _dashed(name):
            return self._store(flag.dest, False, words[at], [], known=True)
        if not dot and flag.kind in ("switch", "switch-pair"):
            return self._store(flag.dest, True, words[at], [inline] if inline else [], known=True, text=inline)
        values = [inline] if inline is not None else self._following(words, at, flag)
        if not values:
            what = f"`{name}` has no value"
            self._problem(
                "CMD007",
                Severity.ERROR,
                what,
                "The engine refuses its whole command line: expected an argument.",
                "Write its value after it.",
                words[at].span,
            )
            return 1
        if dot:
            self._nested(flag, path, values[-1], words[at])
        else:
            self._store(flag.dest, _typed(flag, values), words[at], values, known=True)
            self._half_number(flag, values[0])
        return 1 + (0 if inline is not None else len(values))

    def _half_number(self, flag: Flag, value: Word) -> None:
        """Decimals before a capital letter, which no other check sees: they look like a number and are none to the engine."""
        if "human" in flag.type and isinstance(_converted(flag, value.text), str) and _HUMAN.fullmatch(value.text):
            what = f"`{value.text}` is no number to the engine: decimals go with the small letters k, m, g and t"
            fix = "Write it in digits, or with a small letter, which counts in thousands."
            self._problem("CMD007", Severity.ERROR, what, "The engine refuses its whole command line.", fix, value.span)

    def _flag(self, name: str) -> Flag | None:
        dashed = _dashed(name)
        if name in self.short:
            return self.short[name]
        dest = self.flags.by_option.get(dashed)
        if dest is not None:
            return self.flags.flags[dest]
        return next((f for f in self.flags.flags.values() if f.negative == dashed), None)

    def _following(self, words: Sequence[Word], at: int, flag: Flag) -> list[Word]:
        most = 1 if flag.nargs in (None, "?") and flag.kind != "list" else flag.nargs if isinstance(flag.nargs, int) else len(words)
        taken: list[Word] = []
        for word in words[at + 1 :]:
            if _is_option(word) or len(taken) >= most:
                break
            taken.append(word)
        return taken

    def _foreign_option(self, words: Sequence[Word], at: int, name: str, inline: Word | None) -> int:
        """An option that the release does not have: kept under its own name, for the rule that says so."""
        if not name.startswith("--") and _dashed("-" + name) in self.flags.by_option:
            what, why = f"`{name}` has one dash, and the option has two", "The engine refuses its whole command line: unrecognized arguments."
            self._problem("CMD006", Severity.ERROR, what, why, f"Write `-{name}`.", words[at].span)
            return 1
        following = words[at + 1 : at + 2]
        values = [inline] if inline is not None else [w for w in following if not _is_option(w)]
        value: Any = _plain(values[0].text) if values else True
        self._store(name.lstrip("-").replace("-", "_"), value, words[at], values, known=False)
        return 1 + (0 if inline is not None else len(values))

    def _store(self, dest: str, value: Any, word: Word, values: Sequence[Word], *, known: bool, text: Word | None = None) -> int:
        if text is not None:  # A switch that is given a value is refused; some releases take true and false.
            value = {"true": True, "false": False}.get(text.text.lower(), text.text)
        flag = self.flags.flags.get(dest)
        overrides = dest in self.options and self.options[dest].key_span in self.launch.configured and word.span not in self.launch.configured
        if dest in self.options and not overrides and not (flag is not None and flag.kind == "append"):
            what = f"`{_dashed(_split(word)[0])}` is given twice"
            self._problem(
                "CMD008",
                Severity.WARNING,
                what,
                "The last one counts; the first, which a reader may believe, does nothing.",
                "Keep one of them.",
                word.span,
            )
        elif dest in self.options and not overrides and isinstance(value, tuple):
            value = (*self.options[dest].value, *value)
        unknown = tuple(name for w in values for name in w.unknown)
        span = (
            Span(values[0].span.start, values[-1].span.end, values[0].span.source)
            if values and values[0].span.start <= values[-1].span.end
            else values[0].span
            if values
            else word.span
        )
        self.options[dest] = Option(dest, value, span, word.span, known, unknown)
        if unknown:
            what = f"the value of `{dest}` is not known here: {', '.join(unknown)} is not set"
            self._problem(
                "CMD005", Severity.WARNING, what, _WHY_UNKNOWN, "Write the value, give the variable a default (${X:-value}), or set it in `.env` beside a Compose file.", span
            )
        return 1

    def _nested(self, flag: Flag, path: str, value: Word, word: Word) -> None:
        """`--compilation-config.mode 3`: one key of a JSON object."""
        earlier = self.options.get(flag.dest)
        config: dict[str, Any] = dict(earlier.value) if earlier and isinstance(earlier.value, dict) else {}
        inner = config
        keys = path.split(".")
        for key in keys[:-1]:
            inner[key] = dict(inner[key]) if isinstance(inner.get(key), dict) else {}
            inner = inner[key]
        inner[keys[-1]] = _plain(value.text)
        self.options[flag.dest] = Option(
            flag.dest, config, value.span, word.span, True, (*(earlier.unknown if earlier else ()), *value.unknown)
        )

    def _typeset(self, words: Sequence[Word], at: int) -> int:
        """An option whose hyphens a word processor or a web page made into a dash; gives the words that it would take."""
        text = words[at].text
        meant = "--" + _TYPESET.sub("", text)
        what, why = f"`{text[:60]}` begins with a dash that is no hyphen", "The engine takes it for a word of its own, and refuses its whole command line."
        self._problem("CMD006", Severity.ERROR, what, why, f"Type it anew: `{meant[:60]}`.", words[at].span)
        flag = self._flag(meant.partition("=")[0])
        takes = flag is not None and flag.kind not in ("switch", "switch-pair") and "=" not in meant
        return 1 + (len(self._following(words, at, flag)) if flag is not None and takes else 0)

    def _stray(self, word: Word) -> None:
        if word.unknown:
            what = f"{', '.join(word.unknown)} is not set here, so what it adds to the command is not known"
            self._problem("CMD005", Severity.WARNING, what, _WHY_UNKNOWN, "Write what it holds.", word.span)
            return
        what = f"`{word.text[:60]}` belongs to no option"
        self._problem(
            "CMD006",
            Severity.ERROR,
            what,
            "The engine refuses its whole command line: unrecognized arguments.",
            "Remove it, or quote the value that it is part of.",
            word.span,
        )

    def _problem(self, code: str, severity: Severity, what: str, why: str, fix: str, span: Span) -> None:
        if len(self.problems) > MAX_PROBLEMS:
            return
        if len(self.problems) == MAX_PROBLEMS:
            what = f"more than {MAX_PROBLEMS} findings about single words; the others are not listed"
        self.problems.append(self.launch.source.finding(code, severity, what, why, fix, span))


def arguments(launch: Launch, flags: FlagTable) -> Arguments:
    """A launch's arguments, read with a release's options."""
    return _Parser(launch, flags).parsed()


def _spelled_out(words: Sequence[Word]) -> list[Word]:
    """The words with -O3, -O=3 and -O 3 as the parser itself rewrites them before it looks."""
    found: list[Word] = []
    for i, word in enumerate(words):
        glued = re.fullmatch(r"-O=?(.+)", word.text)
        separate = word.text == "-O" and i + 1 < len(words) and words[i + 1].text in ("0", "1", "2", "3")
        if glued or separate:
            found.append(word_of("--optimization-level", word.span))
        if glued:
            found.append(word.cut(glued.start(1)))
        elif not separate:
            found.append(word)
    return found


def _is_option(word: Word) -> bool:
    return re.match(r"--?[A-Za-z]", word.text) is not None


def _split(word: Word) -> tuple[str, Word | None]:
    name, equals, _ = word.text.partition("=")
    return (name, word.cut(len(name) + 1)) if equals else (name, None)


def _dashed(name: str) -> str:
    """An option as the parser's table spells it: it takes underscores for dashes."""
    return name if not name.startswith("--") else "--" + name[2:].replace("_", "-")


def _typed(flag: Flag, values: Sequence[Word]) -> Any:
    """Values as the parser converts them; what it could not convert stays text, for the rules to say."""
    if flag.kind in ("list", "append") or (flag.nargs not in (None, "?") and not isinstance(flag.nargs, int)):
        return tuple(_converted(flag, w.text) for w in values)
    return _converted(flag, values[0].text)


def _converted(flag: Flag, text: str) -> Any:
    if flag.kind == "json" or flag.type in ("json", "config", "json_or_str"):
        return _json(text)
    human = _HUMAN.fullmatch(text)
    if text == "-1" and "auto" in flag.type:
        return "auto"
    if human and "human" in flag.type and (human[2].islower() or "." not in human[1]):  # The engine refuses 1.5M.
        return int(float(human[1]) * _FACTORS[human[2]])
    is_whole = isinstance(flag.default, int) and not isinstance(flag.default, bool)  # Whatever type the parser hands it over as.
    if ("int" in flag.type or is_whole) and re.fullmatch(r"[-+]?\d{1,18}", text):
        return int(text)
    if "float" in flag.type and re.fullmatch(r"[-+]?(\d{1,18}(\.\d*)?|\.\d+)", text):
        return float(text)
    if flag.type == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _json(text: str) -> Any:
    """JSON as data where it is an object; anything else as written, since ENG006 says what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _frozen(value) if isinstance(value, (dict, list)) else text


def _plain(text: str) -> Any:
    try:
        return _frozen(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
