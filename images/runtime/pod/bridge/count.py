"""count_tokens: an Anthropic request -> the engine's /tokenize request, and its answer -> a number.

The engine counts with its own chat template: system prompt, tools, thinking of earlier turns and the end of the prompt that
the thinking mode makes, so that the number is the one that the same request is billed with.
"""

from __future__ import annotations

from typing import Any

from pod.bridge.codec import BadJsonError, loads
from pod.bridge.errors import ApiError
from pod.bridge.models import Names
from pod.bridge.pdf import PdfReader
from pod.bridge.requests_tools import chat_tool
from pod.bridge.settings import Settings
from pod.bridge.size import estimate
from pod.bridge.translate import Translation, chat_messages, read, thinking_fields, turn_of

__all__ = ["count_in", "estimate", "tokenize_request"]


def tokenize_request(body: Any, settings: Settings, names: Names, pdf: PdfReader | None = None,
                     counted: int | None = None) -> Translation:  # fmt: skip
    """The request for the engine's /tokenize; max_tokens and stream may be absent. Raises InvalidRequestError."""
    reading = read(body, settings, names, pdf, counted, counting=True)
    fields = thinking_fields(reading, is_answered=False)
    level = fields.pop("reasoning_effort", None)
    asked: dict[str, Any] = {"model": reading.match.upstream_name, "messages": chat_messages(reading), **fields}
    if level is not None:
        asked["chat_template_kwargs"] = {**asked.get("chat_template_kwargs", {}), "reasoning_effort": level}
    if reading.tools:  # also with tool_choice none: the engine leaves them in the prompt then, unless a flag of its own says otherwise
        asked["tools"] = [chat_tool(tool) for tool in reading.tools]
    return Translation(asked, turn_of(reading, body, settings, False), reading.match.model, tuple(reading.notes))


def count_in(answer: bytes) -> int:
    """The tokens in an answer of /tokenize, or of a native count_tokens. Raises ApiError 502 where it holds no number."""
    # The list of token ids behind the count can be megabytes: read no further than needed.
    head = answer[:200].partition(b",")[0] + b"}"
    for text in (head, answer):
        try:
            data = loads(text)
        except BadJsonError:
            continue
        for key in ("count", "input_tokens"):
            value = data.get(key) if isinstance(data, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
    raise ApiError(502, "The engine's count holds no number.")
