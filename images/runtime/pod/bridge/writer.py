"""The client's side of a stream: one message as Anthropic's events, in their order.

One block is open at a time, indexes have no gaps, a thinking block ends with its signature. White space is held back until
something follows, since an empty text block makes the next request invalid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pod.bridge import sse
from pod.bridge.answers import Stop, Usage, usage_of
from pod.bridge.calls import ToolUse
from pod.bridge.codec import quoted
from pod.bridge.errors import ApiError
from pod.bridge.signatures import carrying, signature_of
from pod.bridge.turn import Turn

MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
TEXT, THINKING = "text", "thinking"
# Arguments of hundreds of kilobytes go out in pieces, for clients that read lines of limited length.
ARGUMENT_PIECE = 16384
_START = {TEXT: {"type": "text", "text": ""}, THINKING: {"type": "thinking", "thinking": "", "signature": ""}}
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":'
_BLOCK_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
DELTA_END = b"}}\n\n"


class MessageWriter:
    """Blocks and pieces in, frames out. `done` once message_stop or an error was given; `failure` is that error."""

    def __init__(self, turn: Turn, message_id: str, usage_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self.turn, self.message_id = turn, message_id
        self.started = self.done = False
        self.failure: ApiError | None = None
        self.stop_reason: str | None = None
        self.notes: list[str] = []
        self.engine_id: str | None = None
        self._usage_s, self._clock = usage_s, clock
        self._last_usage = 0.0
        self._reported = 0
        self._raw_usage: Any = None
        self._pieces = 0
        self._next = 0
        self._open: str | None = None
        self._prefix = b""
        self._blank, self._blank_kind = "", ""
        self._thoughts: list[str] = []
        self._has_answer = False

    @property
    def usage(self) -> Usage:
        """Tokens so far; the output never less than a client was told."""
        usage = usage_of(self._raw_usage, self.turn, self._pieces)
        return usage if usage.completion >= self._reported else usage._replace(completion=self._reported)

    def begin(self) -> list[bytes]:
        """message_start, with what is known of the input by now."""
        if self.started or self.done:
            return []
        self.started = True
        self._last_usage = self._clock()
        message: dict[str, Any] = {
            "id": self.message_id, "type": "message", "role": "assistant", "model": self.turn.model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": self.usage.first(),
        }  # fmt: skip
        return [sse.frame("message_start", {"type": "message_start", "message": message})]

    def beat(self) -> list[bytes]:
        """A ping, and a real event beside it: newer clients do not count pings."""
        if self.done:
            return []
        if self._open is not None:
            return [sse.PING, self._prefix + b'""' + DELTA_END]
        return [sse.PING, self._message_delta(None)] if self.started and self._usage_s > 0 else [sse.PING]

    def fail(self, error: ApiError) -> list[bytes]:
        """The error event; nothing follows it."""
        if self.done:
            return []
        self.done = True
        self.failure = error
        return [error.frame()]

    def _write(self, kind: str, text: str, out: list[bytes]) -> None:
        """Adds to the open block of the kind, or opens one."""
        if self._open != kind:
            if self._blank_kind != kind:
                self._blank, self._blank_kind = "", kind
            text = self._blank + text
            if not text or text.isspace():
                self._blank = text
                return
            self._open_block(kind, out)
        if kind == THINKING:
            self._thoughts.append(text)
            if self.turn.omits_thinking:
                return
        out.append(self._prefix + quoted(text) + DELTA_END)

    def _write_blank(self, out: list[bytes]) -> None:
        """Writes the white space of an answer that is nothing else."""
        if self._next == 0 and self._open is None and self._blank and self._blank_kind == TEXT:
            text = self._blank
            self._open_block(TEXT, out)
            out.append(self._prefix + quoted(text) + DELTA_END)

    def _open_block(self, kind: str, out: list[bytes]) -> None:
        self._close_block(out)
        self._open, self._blank = kind, ""
        self._has_answer = self._has_answer or kind == TEXT
        name = b"text" if kind == TEXT else b"thinking"
        self._prefix = _DELTA % (self._next, name + b"_delta", name)
        out.append(sse.frame("content_block_start", {"type": "content_block_start", "index": self._next, "content_block": _START[kind]}))

    def _close_block(self, out: list[bytes]) -> None:
        if self._open is None:
            return
        if self._open == THINKING:
            text = "".join(self._thoughts)
            signature = quoted(carrying(text) if self.turn.omits_thinking else signature_of(text))
            out.append(_DELTA % (self._next, b"signature_delta", b"signature") + signature + DELTA_END)
            self._thoughts = []
        out.append(_BLOCK_STOP % self._next)
        self._open = None
        self._next += 1

    def _write_tool(self, used: ToolUse, out: list[bytes]) -> None:
        """A whole tool call."""
        self._close_block(out)
        self._blank = ""
        self._has_answer = True
        out.append(sse.frame("content_block_start", {"type": "content_block_start", "index": self._next, "content_block": used.start()}))
        prefix = _DELTA % (self._next, b"input_json_delta", b"partial_json")
        for i in range(0, len(used.arguments), ARGUMENT_PIECE):
            out.append(prefix + quoted(used.arguments[i : i + ARGUMENT_PIECE]) + DELTA_END)
        out.append(_BLOCK_STOP % self._next)
        self._next += 1

    def _report(self, out: list[bytes]) -> None:
        """The usage so far, if it grew."""
        usage = self.usage
        self._last_usage = self._clock()
        if usage.completion > self._reported:
            out.append(self._message_delta(None))

    def _message_delta(self, stop: Stop | None) -> bytes:
        delta = {"stop_reason": stop.reason if stop else None, "stop_sequence": stop.sequence if stop else None}
        usage = self.usage
        self._reported = usage.completion
        told = usage.final() if stop else usage.first() if self._raw_usage else {"output_tokens": usage.completion}
        return sse.frame("message_delta", {"type": "message_delta", "delta": delta, "usage": told, **(self.turn.claims if stop else {})})

    def _stop(self, stop: Stop, out: list[bytes]) -> None:
        """The end of the message."""
        self._close_block(out)
        self.stop_reason = stop.reason
        out += [self._message_delta(stop), MESSAGE_STOP]
        self.done = True
