"""Server-sent events: bytes cut anywhere -> events, and events -> frames. No I/O.

The decoder follows the HTML standard (LF, CRLF and CR end a line, comments and unknown fields are skipped, a byte order mark
is dropped, several `data` lines are joined by LF) but for one thing: an event that the end of the stream cuts off after a
whole line is handed out, because servers exist that leave the last blank line away.
"""

from __future__ import annotations

from typing import NamedTuple

from pod.bridge.codec import dumps, one_line

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
COMMENT = b": keep-alive\n\n"
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its name (empty where none was given), its data, and its bytes with LF line ends, without the blank line."""

    name: str
    data: bytes
    raw: bytes


class Decoder:
    """Bytes of a stream -> events. `feed` takes any cut; `flush` gives what the end of the stream completed."""

    __slots__ = ("_first", "_pending", "_skip_lf")

    def __init__(self) -> None:
        self._pending = b""
        self._skip_lf = False
        self._first = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completed."""
        if self._skip_lf or b"\r" in data:
            data = self._normalised(data)
        if b"\n" not in data:
            self._pending += data
            return []
        *frames, self._pending = (self._pending + data).split(b"\n\n")
        return self._events(frames) if frames else []

    def flush(self) -> list[Event]:
        """The event that the stream ended in, if it has a whole line of data."""
        frame, self._pending = self._pending, b""
        return self._events([frame])

    @property
    def pending(self) -> int:
        """Bytes held back."""
        return len(self._pending)

    def _normalised(self, data: bytes) -> bytes:
        if self._skip_lf and data[:1] == b"\n":
            data = data[1:]
            self._skip_lf = False
        if data:
            self._skip_lf = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _events(self, frames: list[bytes]) -> list[Event]:
        events = []
        for frame in frames:
            if self._first:
                self._first = False
                frame = frame.removeprefix(_BOM)
            if frame[:6] == b"data: " and b"\n" not in frame:
                events.append(Event("", frame[6:], frame))
            elif event := _parsed(frame):
                events.append(event)
        return events


def _parsed(frame: bytes) -> Event | None:
    name = ""
    data: list[bytes] = []
    lines = [line for line in frame.split(b"\n") if line]
    for line in lines:
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return Event(name, b"\n".join(data), b"\n".join(lines)) if data else None


def frame(name: str, payload: object) -> bytes:
    """A frame of one named event with JSON on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), one_line(dumps(payload)))
