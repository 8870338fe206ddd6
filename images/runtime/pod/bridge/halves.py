"""Characters beyond U+FFFF that come in two halves, in two chunks: gateways that count in UTF-16 cut them so.

The first half waits for the second. One that stays alone becomes U+FFFD, since no UTF-8 can carry it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pod.bridge.codec import loads, loads_with_halves, without_surrogates


class Halves:
    """Reads the JSON of one stream; first halves wait for the next piece of the same text. `mend` is `chat` or `native`."""

    def __init__(self, mend: Callable[[Halves, Any], None]) -> None:
        self._mend = mend
        self._waiting: dict[object, str] = {}

    def loads(self, data: bytes) -> Any:
        """The value in the JSON of one event. Raises BadJsonError."""
        # Only an escape can hold half a character.
        if not self._waiting and b"\\ud" not in data and b"\\uD" not in data:
            return loads(data)
        value = loads_with_halves(data)
        self._mend(self, value)
        return value

    def is_left(self, key: str) -> bool:
        """Whether the text of a field has ended with half a character."""
        return key in self._waiting

    def mended(self, key: object, text: str) -> str:
        """The text with the half before it, and without one at its end."""
        text = self._waiting.pop(key, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[key] = text[-1]
            text = text[:-1]
        found: str = without_surrogates(text)
        return found

    def mend(self, holder: Any, key: str, *place: str) -> None:
        """The same for a field of some object, where it is a text; `place` tells the object from others like it."""
        if isinstance(holder, dict) and isinstance(holder.get(key), str):
            holder[key] = self.mended((key, *place) if place else key, holder[key])


def chat(halves: Halves, chunk: Any) -> None:
    """Mends the texts of a chat chunk."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    for choice in choices if isinstance(choices, list) else []:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            continue
        for key in ("content", "reasoning", "reasoning_content"):
            halves.mend(delta, key)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                halves.mend(call.get("function"), "arguments", str(call.get("index")))


def native(halves: Halves, event: Any) -> None:
    """Mends the texts of an event of the Messages API."""
    if isinstance(event, dict):
        for key in ("text", "thinking", "partial_json"):
            halves.mend(event.get("delta"), key, str(event.get("index")))
