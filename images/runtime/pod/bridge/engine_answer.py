"""An engine's answer as it comes: handed on piece by piece, or collected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from pod.bridge.errors import ApiError

# A whole answer that is larger than this is no answer of an engine.
MAX_ANSWER = 256 << 20

OnData = Callable[[bytes], None]
OnEnd = Callable[[ApiError | None], None]


class Connection(Protocol):
    """What an answer needs of the connection that it comes by."""

    def pause(self, is_paused: bool) -> None: ...
    def abort(self) -> None: ...


class Answer:
    """An engine's answer whose head has come. One of `listen` and `read` takes its body; `cancel` ends it at once, which an
    engine takes as an order to stop generating."""

    def __init__(self, connection: Connection | None, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        self._connection = connection
        self._early: list[bytes] = []
        self._is_ended = False
        self._error: ApiError | None = None
        self._on_data: OnData | None = None
        self._on_end: OnEnd | None = None

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        """An answer that has come whole."""
        found = cls(None, status, headers)
        found.data(body)
        found.end(None)
        return found

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"

    def listen(self, on_data: OnData, on_end: OnEnd) -> None:
        """Hands the body on from now: bytes in any cut, then its end, with an error where it was cut off."""
        early, self._early = self._early, []
        self._on_data, self._on_end = on_data, on_end
        if early:
            on_data(b"".join(early))
        if self._is_ended and self._on_end is not None:
            on_end(self._error)

    async def read(self, limit: int = MAX_ANSWER) -> bytes:
        """The whole body. Raises ApiError where it is cut off or larger than the limit in bytes."""
        done: asyncio.Future[ApiError | None] = asyncio.get_running_loop().create_future()
        pieces: list[bytes] = []
        size = 0

        def on_data(data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size <= limit:
                pieces.append(data)
            elif not done.done():
                done.set_result(ApiError(502, f"The engine's answer is larger than {limit} bytes."))

        def on_end(error: ApiError | None) -> None:
            if not done.done():
                done.set_result(error)

        self.listen(on_data, on_end)
        try:
            error = await done
        except asyncio.CancelledError:
            self.cancel()
            raise
        if error is not None:
            self.cancel()
            raise error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pause(self, is_paused: bool) -> None:
        """Stops reading from the engine, or goes on."""
        if self._connection is not None:
            self._connection.pause(is_paused)

    def cancel(self) -> None:
        """Ends the connection, and with it the generation; nothing is handed on any more."""
        self._on_data = self._on_end = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    # --- called by the connection

    def data(self, data: bytes) -> None:
        """A piece of the body."""
        if self._on_data is not None:
            self._on_data(data)
        else:
            self._early.append(data)

    def end(self, error: ApiError | None) -> None:
        """The body's end."""
        self._connection = None
        self._is_ended, self._error = True, error
        on_end, self._on_data, self._on_end = self._on_end, None, None
        if on_end is not None:
            on_end(error)
            self._on_data = None
