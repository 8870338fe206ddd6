"""What a log or an API answer tells of a failure: causes by `fingerprints.yaml`, in its order. What no fingerprint knows stays unknown."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from compiler.deploy.answers import mapping, text, texts
from compiler.diagnostics import brief, printable
from compiler.secrets import masked

DATA = Path(__file__).with_name("fingerprints.yaml")
# The beginning of a log holds what was asked for, its end what went wrong; what lies between 8 MB of a chatty start says nothing new.
LONGEST_HEAD, LONGEST_TAIL = 1 << 20, 3 << 20
# A line that is longer is a dump; its beginning names what it is.
LONGEST_LINE = 4000
SHOWN_LINE = 300

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DIGITS = re.compile(r"\d+")
_EXCEPTION = re.compile(r"(?:^|\s)((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt))(?:: |$)")
_ERROR = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|error:|fatal:)")
# True, and no cause: the outer processes' words for an inner one that failed.
_HOLLOW = re.compile(
    r"root cause|stack trace|EngineDeadError|Engine core initialization failed|initialization failed due to|KeyboardInterrupt|SystemExit|CancelledError"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """One row of the data; its fields are described at the head of the file."""

    id: str
    kind: Literal["error", "hint"]
    patterns: tuple[re.Pattern[str], ...]
    also: re.Pattern[str] | None
    never: re.Pattern[str] | None
    cause: str
    code: str
    see: tuple[str, ...]
    change: tuple[str, ...]
    fix: str
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One thing that a log tells. `line` is the line, `number` which one it is (from 1); `see` are further rules about it, `change` routes in specs, the likeliest first."""

    id: str
    kind: Literal["error", "hint"]
    cause: str
    code: str
    see: tuple[str, ...]
    change: tuple[str, ...]
    fix: str
    line: str
    number: int

    def to_json(self) -> dict[str, object]:
        """A flat mapping."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known, the cause first; `last` is the log's own last error, which for an unknown failure is all that can be said."""

    causes: tuple[Cause, ...]
    last: str

    @property
    def known(self) -> bool:
        """Whether a fingerprint tells why something ended; a hint alone does not."""
        return any(c.kind == "error" for c in self.causes)

    def to_json(self) -> dict[str, object]:
        """For programs; `known` false and `causes` empty for a failure that nobody has described yet."""
        return {"known": self.known, "causes": [c.to_json() for c in self.causes], "last_error": self.last}


def explained(log: str | Iterable[str]) -> Explanation:
    """What a log tells: its text or its lines."""
    lines = _lines(log if isinstance(log, str) else "\n".join(log))
    whole = "\n".join(line for _, line in lines)
    found: list[Cause] = []
    for fingerprint in fingerprints():
        if (cause := _cause(fingerprint, lines, whole)) is not None:
            found.append(cause)
    errors, hints = [c for c in found if c.kind == "error"], [c for c in found if c.kind == "hint"]
    return Explanation((*_distinct(errors), *hints), _last_error(lines))


@functools.cache
def fingerprints() -> tuple[Fingerprint, ...]:
    """The data, read once. Raises ValueError or KeyError when the shipped file is damaged."""
    import yaml

    loaded = yaml.load(DATA.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(_fingerprint(row) for row in loaded)


def _fingerprint(row: dict[str, object]) -> Fingerprint:
    def one(name: str) -> re.Pattern[str] | None:
        return _compiled(str(row[name])) if name in row else None

    return Fingerprint(
        id=str(row["id"]),
        kind="hint" if row.get("kind") == "hint" else "error",
        patterns=tuple(_compiled(p) for p in texts(row["match"])),
        also=one("also"),
        never=one("never"),
        cause=str(row["cause"]),
        code=str(row.get("code", "")),
        see=tuple(texts(row.get("see"))),
        change=tuple(texts(row.get("change"))),
        fix=str(row["fix"]),
        source=str(row["from"]),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    """Case is ignored, and a space outside of brackets stands for any white space: logs are wrapped and aligned."""
    spaced = re.sub(r"(\[(?:\\.|[^\]\\])*\])| (?![?*+{])", lambda m: m[1] or r"\s+", pattern)
    return re.compile(spaced, re.IGNORECASE)


def _cause(fingerprint: Fingerprint, lines: Sequence[tuple[int, str]], whole: str) -> Cause | None:
    if not any(p.search(whole) for p in fingerprint.patterns) or (fingerprint.also is not None and not fingerprint.also.search(whole)):
        return None
    pairs = [(number, f"{line} {lines[place + 1][1]}") for place, (number, line) in enumerate(lines[:-1])]
    for candidates in (lines, pairs):  # A sentence may be wrapped over two lines.
        for pattern in fingerprint.patterns:
            for number, line in candidates:
                if (found := pattern.search(line)) is not None and not (fingerprint.never is not None and fingerprint.never.search(line)):
                    return _made(fingerprint, found, number, line)
    return None


def _made(fingerprint: Fingerprint, found: re.Match[str], number: int, line: str) -> Cause:
    groups = [g or "?" for g in found.groups()] + ["?"] * 3
    shown = shown_line(line)
    words = fingerprint.cause.format(*groups, line=brief(shown, 120))
    return Cause(
        fingerprint.id,
        fingerprint.kind,
        printable(brief(masked(words), 400)),
        fingerprint.code,
        fingerprint.see,
        fingerprint.change,
        fingerprint.fix,
        shown,
        number,
    )


def shown_line(line: str) -> str:
    """A line of a log, short, without control characters and secrets."""
    return printable(brief(masked(line.strip()), SHOWN_LINE))


def _distinct(causes: Sequence[Cause]) -> list[Cause]:
    """Without a general cause that rests on the line of a special one before it."""
    kept: list[Cause] = []
    for cause in causes:
        if all(cause.number != k.number for k in kept):
            kept.append(cause)
    return kept


def _lines(log: str) -> list[tuple[int, str]]:
    """Numbered lines, cleaned; one that says the same as an earlier one but for its numbers is left out."""
    if len(log) > LONGEST_HEAD + LONGEST_TAIL:
        skipped = log[LONGEST_HEAD:-LONGEST_TAIL].count("\n")
        log = log[:LONGEST_HEAD] + "\n" * max(1, skipped) + log[-LONGEST_TAIL:]
    found: list[tuple[int, str]] = []
    seen: set[str] = set()
    for number, raw in enumerate(log.replace("\r", "\n").split("\n"), 1):
        line = _unwrapped(_ANSI.sub("", raw)[:LONGEST_LINE])
        shape = _DIGITS.sub("#", line)
        if line.strip() and shape not in seen:
            seen.add(shape)
            found.append((number, line))
    return found


def _unwrapped(line: str) -> str:
    """The words in a line of JSON, as log collectors and the runtime's journal write them; other lines as they are."""
    stripped = line.strip().removeprefix("data:").strip()
    if not stripped.startswith("{") or not stripped.endswith("}"):
        return line
    try:
        row = mapping(json.loads(stripped))
    except (ValueError, RecursionError):
        return line
    words = [
        found for key in ("line", "log", "message", "msg", "detail", "error", "title", "cause", "fix") if (found := text(row.get(key)))
    ]
    words = ["pod fatal:", *words] if row.get("kind") == "fatal" else words
    return (
        " ".join([*words, *texts(row.get("errors")), *([f"status: {row['status']}"] if "status" in row else [])]).replace("\n", " ") or line
    )


def _last_error(lines: Sequence[tuple[int, str]]) -> str:
    """The last line that names an error and is more than an echo of an inner one."""
    for _, line in reversed(lines):
        if (_EXCEPTION.search(line) or _ERROR.search(line)) and not _HOLLOW.search(line):
            return shown_line(line)
    return ""
