"""Tool calls: from what an engine says, in pieces or whole, to blocks that a client can run.

A call is handed to a client only when its arguments are known to be a whole JSON object. What is none becomes an empty
object with the raw text beside it, under `raw_arguments` of the block: the client's own check then tells the model. A
call that max_tokens cut off is left out.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

from pod.bridge.codec import BadJsonError, dumps, loads, tolerant_loads
from pod.bridge.guard import refusal
from pod.bridge.turn import Turn

_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CARRIED = "toolu_as_"
# Half of a character beyond U+FFFF, which a client's parser may refuse where its other half is missing.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def client_id(engine_id: str) -> str:
    """An engine's id of a call as clients take it: letters, digits, `_` and `-`. Others (`functions.run:0`) are carried inside one
    that is fit, because templates exist that read them, so that the engine must see its own again."""
    if _CLIENT_ID.fullmatch(engine_id):
        return engine_id
    return _CARRIED + base64.urlsafe_b64encode(engine_id.encode("utf-8", "replace")).decode().rstrip("=")


def engine_id(shown: str) -> str:
    """The engine's own id in one that `client_id` made; any other is itself."""
    if not shown.startswith(_CARRIED):
        return shown
    packed = shown.removeprefix(_CARRIED)
    try:
        found = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    except (binascii.Error, ValueError):
        return shown
    return found if found and client_id(found) == shown else shown


class ToolUse(NamedTuple):
    """A call for a client: the arguments as text, and `raw` where they were no JSON object."""

    id: str
    name: str
    arguments: str
    raw: str | None = None

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as an object."""
        found = tolerant_loads(self.arguments)
        assert isinstance(found, dict)
        return found

    def start(self) -> dict[str, Any]:
        """The block as a stream opens it."""
        block: dict[str, Any] = {"type": "tool_use", "id": self.id, "name": self.name, "input": {}}
        return block if self.raw is None else {**block, "raw_arguments": self.raw}


def arguments_of(pieces: list[str]) -> str | None:
    """The JSON object in the pieces of a call's arguments, as text; None where there is none.

    Pieces are put together. Where that is no JSON: what follows a whole object is dropped (engines repeat the arguments
    at the end) unless the first one is empty, and the last piece is taken where each piece repeats the ones before it. An object
    inside a JSON string is unpacked, raw line breaks inside strings and halves of characters are allowed for.
    """
    text = "".join(pieces).strip()
    if text in ("", "null", '""'):
        return "{}"
    value = _json(text)
    if isinstance(value, dict):
        return dumps(value).decode() if _SURROGATE.search(text) else text
    if isinstance(value, str) and isinstance(_json(value), dict):
        return arguments_of([value])
    if value is None and (whole := _first_object(text)):
        return whole
    last = pieces[-1].strip() if pieces else ""
    if value is None and len(pieces) > 1 and isinstance(_json(last), dict) and all(last.startswith(piece.strip()) for piece in pieces):
        return last
    return None


def is_whole(pieces: list[str]) -> bool:
    """Whether the arguments so far are a whole object, so that nothing can follow."""
    return bool(pieces) and pieces[-1].rstrip().endswith("}") and isinstance(_json("".join(pieces)), dict)


def _json(text: str) -> Any:
    try:
        return loads(text)
    except BadJsonError:
        return None


def _first_object(text: str) -> str | None:
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if not value and (later := arguments_of([text[end:]])) and later != "{}":
        return later  # an empty object that stood in until the arguments came
    is_fit = isinstance(_json(text[:end]), dict) and not _SURROGATE.search(text[:end])
    return text[:end] if is_fit else _rewritten(text[:end])


def _rewritten(text: str) -> str | None:
    try:
        value = tolerant_loads(text, strict=False)
    except BadJsonError:
        return None
    return dumps(value).decode() if isinstance(value, dict) else None


class Calls:
    """Makes the tool calls of one message fit for a client: names, unique ids, arguments, the guard."""

    def __init__(self, turn: Turn, message_id: str, notes: list[str]) -> None:
        self._turn = turn
        self._message_id = message_id
        self._notes = notes
        self._ids: set[str] = set()

    @property
    def count(self) -> int:
        """Calls made so far."""
        return len(self._ids)

    def made(self, call_id: Any, name: Any, pieces: list[str], *, is_cut: bool) -> ToolUse | str | None:
        """The call; a text to show in its place; or None where there is nothing to hand on. `is_cut`: max_tokens ended it."""
        name = name.strip() if isinstance(name, str) and name.strip() else self._turn.forced_tool
        if not name:
            self._notes.append("a tool call without a name was left out")
            return None
        if self._turn.one_tool and self._ids:
            self._notes.append(f"a second call ({name}) was left out: the client takes one at most")
            return None
        arguments = arguments_of(pieces)
        if is_cut and (arguments is None or not any(pieces)):
            self._notes.append(f"the call of {name} was cut off by max_tokens and left out")
            return None
        raw = None
        if arguments is None:
            raw, arguments = "".join(pieces), "{}"
            self._notes.append(f"the arguments of {name} are no JSON object ({len(raw)} characters, kept as raw_arguments)")
        used = ToolUse(self._unique(call_id), name, arguments, raw)
        if self._turn.guard and (why := refusal(name, used.input)):
            self._ids.discard(used.id)
            self._notes.append(f"the guard held back a call of {name}")
            return why
        return used

    def _unique(self, call_id: Any) -> str:
        # Some engines count anew in each turn; a client that finds its results by their ids would take an old one for this call's.
        is_new = isinstance(call_id, str) and call_id and call_id not in self._turn.known_calls
        wanted = client_id(call_id) if is_new else ""
        if not wanted or wanted in self._ids:
            wanted = f"toolu_{self._message_id.removeprefix('msg_')}_{len(self._ids)}"
        self._ids.add(wanted)
        return wanted


def pieces_of(arguments: Any) -> list[str]:
    """A call's arguments as pieces of text, whether an engine sends text, an object or nothing."""
    if isinstance(arguments, str):
        return [arguments] if arguments else []
    return [] if arguments is None else [dumps(arguments).decode()]


class PendingCall:
    """A call that is being put together."""

    __slots__ = ("checked", "id", "is_out", "name", "pieces", "whole")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.pieces: list[str] = []
        self.checked = 0
        self.whole = False
        self.is_out = False

    def is_whole(self) -> bool:
        """Whether the arguments are a whole object; looked at again only when pieces were added."""
        if self.checked != len(self.pieces):
            self.checked = len(self.pieces)
            self.whole = is_whole(self.pieces)
        return self.whole


def is_another(known: PendingCall, call_id: Any, name: str | None, pieces: list[str]) -> bool:
    """Whether a part under a known index begins another call: engines exist that number all calls 0."""
    if name is None or known.name is None:
        return False
    has_new_id = isinstance(call_id, str) and bool(call_id) and known.id is not None and call_id != known.id
    if not known.is_whole():
        return has_new_id and name != known.name
    if has_new_id:
        return True
    is_repeat = not call_id and "".join(pieces).strip() == "".join(known.pieces).strip()
    return not call_id and known.id is None and bool(pieces) and not is_repeat
