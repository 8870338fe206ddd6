"""JSON files of a checkpoint, read strictly: what the file does not say is asked for by name, and each fault has its line."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from typing import Any, NoReturn

from compiler.diagnostics import Diagnostic, Place, Position, Route, Severity

_NO_NUMBER = re.compile(r"(?<=[\s:\[,])-?(?:NaN|Infinity)\b")
LARGEST = 1 << 40
"""No width, count or window of a network is near it: beyond, a number is a slip."""
_WHY_JSON = "Nothing of it can be trusted, and no fact is taken from half a file."


@dataclasses.dataclass(frozen=True, slots=True)
class JsonFile:
    """One JSON object with the text that it came from. `name` is what messages call the file."""

    name: str
    text: str
    data: dict[str, Any]

    def position(self, route: Route) -> Position | None:
        """Line and column of the key at a route; None where the text does not spell it."""
        at = 0
        for key in (part for part in route if isinstance(part, str)):
            found = re.compile(rf"{re.escape(json.dumps(key))}\s*:").search(self.text, at)
            if found is None:
                return None
            at = found.start()
        return _position(self.text, at, len(json.dumps(str(route[-1])))) if route else None


class _NotANumber(ValueError):
    """NaN or an infinity, which JSON does not have and Python's reader takes all the same."""


def read_json(name: str, content: bytes) -> tuple[JsonFile | None, list[Diagnostic]]:
    """The object in a file, or the finding that says where reading stopped."""
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text, parse_constant=_refused)
    except UnicodeDecodeError as error:
        return None, [_unreadable(name, f"is not UTF-8 text: byte {error.start}")]
    except _NotANumber as error:
        found = _NO_NUMBER.search(text)
        return None, [
            _unreadable(name, f"holds {error}, which is no number", _position(text, found.start(), len(found[0])) if found else None)
        ]
    except json.JSONDecodeError as error:
        return None, [_unreadable(name, f"is not JSON: {error.msg[0].lower()}{error.msg[1:].removesuffix(' at')}", _position(text, error.pos, 1))]
    except (RecursionError, ValueError):
        return None, [_unreadable(name, "nests too deeply, or holds a number of thousands of digits")]
    if not isinstance(data, dict):
        return None, [_unreadable(name, "is not an object of keys and values")]
    return JsonFile(name, text, data), []


class Fields:
    """Typed questions to one object of a JSON file. Faults collect in `problems`, shared with the sections inside it."""

    def __init__(
        self, file: JsonFile, data: dict[str, Any] | None = None, route: Route = (), problems: list[Diagnostic] | None = None
    ) -> None:
        self.file, self.route = file, route
        self.data = file.data if data is None else data
        self.problems: list[Diagnostic] = [] if problems is None else problems

    def whole(self, *names: str, least: int = 1) -> int | None:
        """The whole number under the first of `names` that is there; None, with a finding where it is no such number."""
        name, value = self._first(names)
        if name is None:
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            self._wrong(name, value, f"a whole number from {least} on belongs here")
            return None
        return value

    def required(self, *names: str, least: int = 1) -> int:
        """As `whole`, and a finding where none is there; the number then is `least`, so that reading goes on and finds the rest."""
        if self._first(names)[0] is None:
            self.missing(*names)
            return least
        value = self.whole(*names, least=least)
        return least if value is None else value

    def number(self, name: str) -> float | None:
        """The finite number above 0 under a name."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LARGEST:
            self._wrong(name, value, "a number above 0 belongs here")
            return None
        return float(value)

    def text(self, *names: str) -> str | None:
        """The text under the first of `names` that is there."""
        name, value = self._first(names)
        if name is None or _is_text(value):
            return str(value) if name is not None else None
        self._wrong(name, value, "text belongs here")
        return None

    def flag(self, name: str) -> bool | None:
        """The truth value under a name."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            self._wrong(name, value, "true or false belongs here")
            return None
        return value

    def items(self, name: str, of: type) -> list[Any] | None:
        """The list under a name, all of whose items are of one type."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or any(
            not isinstance(item, of) or isinstance(item, bool) or (of is str and not _is_text(item)) for item in value
        ):
            self._wrong(name, value, f"a list of {'texts' if of is str else 'whole numbers'} belongs here")
            return None
        return value

    def section(self, *names: str) -> Fields | None:
        """The object under the first of `names` that holds one with keys in it."""
        for name in names:
            value = self.data.get(name)
            if isinstance(value, dict) and value:
                return Fields(self.file, value, (*self.route, name), self.problems)
            if value is not None and not isinstance(value, dict):
                self._wrong(name, value, "an object belongs here")
        return None

    def missing(self, *names: str) -> None:
        """A finding that none of these keys is there, with the key that looks like a new name of it."""
        spelled = f"`{names[0]}`" + (f" (nor {', '.join(f'`{n}`' for n in names[1:])})" if names[1:] else "")
        near = [key for key in difflib.get_close_matches(names[0], list(self.data), n=1, cutoff=0.7) if key not in names]
        fix = (
            f"It has `{near[0]}`: where that is the same under another name, write the spec by hand."
            if near
            else "Ask its publisher, or write the spec by hand: `podwright new model NAME`."
        )
        where = f" in `{'.'.join(map(str, self.route))}`" if self.route else ""
        self.say(
            "CKP002",
            Severity.ERROR,
            f"{self.file.name} has no {spelled}{where}",
            "The engine would take a default of its own release, which the file does not show.",
            fix,
            self.route,
        )

    def wrong(self, name: str, what: str, fix: str) -> None:
        """A finding that a value contradicts another."""
        self.say("CKP003", Severity.ERROR, what, "One of the two facts is wrong, and nothing here says which.", fix, (*self.route, name))

    def say(self, code: str, severity: Severity, what: str, why: str, fix: str, route: Route) -> None:
        """Any finding at a route of the file."""
        self.problems.append(Diagnostic(code, severity, what, why, fix, Place(self.file.name), self.file.position(route)))

    def _first(self, names: tuple[str, ...]) -> tuple[str | None, Any]:
        return next(((name, self.data[name]) for name in names if self.data.get(name) is not None), (None, None))

    def _wrong(self, name: str, value: object, fix: str) -> None:
        what = f"`{'.'.join(map(str, (*self.route, name)))}` is {json.dumps(value, default=str)[:60]}"
        self.say(
            "CKP003",
            Severity.ERROR,
            what,
            "A memory plan cannot be made of it.",
            f"{fix[0].upper()}{fix[1:]}; get the file from its publisher again.",
            (*self.route, name),
        )


def _is_text(value: object) -> bool:
    """True for text that a spec may hold: not empty, and without what steers a terminal."""
    return isinstance(value, str) and value != "" and value.isprintable()


def _refused(constant: str) -> NoReturn:
    raise _NotANumber(constant)


def _unreadable(name: str, what: str, position: Position | None = None) -> Diagnostic:
    return Diagnostic(
        "CKP001",
        Severity.ERROR,
        f"{name} {what}",
        _WHY_JSON,
        "Download it again, or look whether it is the file that its publisher keeps.",
        Place(name),
        position,
    )


def _position(text: str, at: int, length: int) -> Position:
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return Position(line, at - start + 1, length, text[start : end if end >= 0 else len(text)])
