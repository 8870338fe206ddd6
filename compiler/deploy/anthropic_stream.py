"""Whether a stream of the Anthropic Messages API is one that a strict client takes. Pure: lines in, problems out."""

from __future__ import annotations

import json
from typing import Any

from compiler.deploy.answers import mapping, text, whole

_DELTAS = {"text": ("text_delta", "citations_delta"), "thinking": ("thinking_delta", "signature_delta"), "tool_use": ("input_json_delta",)}


class AnthropicStream:
    """Follows one stream. `problem` is the first thing that a client would stumble over, "" while there is none."""

    def __init__(self) -> None:
        self.problem, self.text, self.stop_reason = "", "", ""
        self.output_tokens = 0
        self._event, self._data = "", ""
        self._state = "before"
        self._open: tuple[int, str] | None = None
        self._next = 0

    def feed(self, line: str) -> None:
        """One line of the stream, without its end."""
        if line.startswith("event:"):
            self._event = line[6:].strip()
        elif line.startswith("data:"):
            self._data += line[5:].strip()
        elif not line and (self._event or self._data):
            self._take(self._event, self._data)
            self._event = self._data = ""

    def flush(self) -> str:
        """The stream is over; the problem, "" when it was complete and legal."""
        if not self.problem and self._state != "after":
            self.problem = "it ended without message_stop" if self._state != "before" else "it had no message_start"
        return self.problem

    def _take(self, event: str, data: str) -> None:
        if self.problem:
            return
        try:
            body = mapping(json.loads(data))
        except (ValueError, RecursionError):
            self.problem = f"an event {event!r} whose data are not JSON"
            return
        kind = text(body.get("type")) or ""
        if kind != event:
            self.problem = f"an event named {event!r} with data of type {kind!r}"
        elif kind == "error":
            self.problem = f"an error: {text(mapping(body.get('error')).get('message')) or data[:200]}"
        elif kind != "ping":
            self.problem = self._order(kind, body)

    def _order(self, kind: str, body: Any) -> str:
        """Whether an event may come now."""
        if self._state == "after":
            return f"{kind} after message_stop"
        if kind == "message_start":
            started, self._state = self._state != "before", "content"
            return "a second message_start" if started else ""
        if self._state == "before":
            return f"{kind} before message_start"
        if kind.startswith("content_block_"):
            return self._block(kind, body)
        if self._open is not None:
            return f"{kind} while content block {self._open[0]} is open"
        if kind == "message_delta":
            self.stop_reason = text(mapping(body.get("delta")).get("stop_reason")) or self.stop_reason
            self.output_tokens = whole(mapping(body.get("usage")).get("output_tokens")) or self.output_tokens
        elif kind == "message_stop":
            self._state = "after"
            return "" if self.stop_reason else "message_stop without a stop_reason before it"
        return ""

    def _block(self, kind: str, body: Any) -> str:
        index = whole(body.get("index"))
        if kind == "content_block_start":
            if self._open is not None or index != self._next:
                return f"content block {index} starts out of order"
            self._open = (self._next, text(mapping(body.get("content_block")).get("type")) or "")
            return ""
        if self._open is None or index != self._open[0]:
            return f"{kind} for block {index}, which is not open"
        if kind == "content_block_stop":
            self._open, self._next = None, self._next + 1
            return ""
        delta = mapping(body.get("delta"))
        if delta.get("type") not in _DELTAS.get(self._open[1], (delta.get("type"),)):
            return f"a {delta.get('type')} in a {self._open[1]} block"
        self.text += delta["text"] if isinstance(delta.get("text"), str) else ""
        return ""
