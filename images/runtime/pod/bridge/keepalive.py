"""Streams that are handed on byte for byte, with pings between their frames and nowhere else."""

from __future__ import annotations

from pod.bridge import errors, sse
from pod.bridge.codec import dumps
from pod.bridge.errors import ApiError

_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")


class PingStream:
    """A stream whose bytes stay as they are. The part of a frame that has come is held until the frame is whole, so that a
    ping can always go out. `anthropic` says which protocol's ping: an event, or a comment that OpenAI clients skip."""

    def __init__(self, *, anthropic: bool = True) -> None:
        self.started = self.done = False
        self.failure: ApiError | None = None
        self._anthropic = anthropic
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The bytes up to the last whole frame."""
        if self.done or not data:
            return []
        if self._pending:
            data = self._pending + data
            self._pending = b""
        if not data.endswith(_ENDS):
            end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in _ENDS)
            data, self._pending = data[:end], data[end:]
        self.started = self.started or bool(data)
        return [data] if data else []

    def flush(self, why: ApiError | None = None) -> list[bytes]:
        """The rest, whole or not; or the error that ended the stream."""
        if why is None and not self.started and not self._pending:
            why = errors.empty()
        if why is not None:
            return self.fail(why)
        rest, self._pending = self._pending, b""
        self.started = self.started or bool(rest)
        is_open, self.done = not self.done, True
        return [rest] if rest and is_open else []

    def begin(self) -> list[bytes]:
        """Nothing: a message that the engine has not begun is not this stream's to begin."""
        return []

    def beat(self) -> list[bytes]:
        """A ping between two frames."""
        return [] if self.done else [sse.PING if self._anthropic else sse.COMMENT]

    def fail(self, error: ApiError) -> list[bytes]:
        """The error that ends the stream; half a frame before it is dropped."""
        if self.done:
            return []
        self.done, self.failure, self._pending = True, error, b""
        if self._anthropic:
            return [error.frame()]
        return [b"data: " + dumps({"error": {"message": error.message, "type": error.kind, "code": error.status}}) + b"\n\n"]
