"""How many tokens a request may have, without a tokenizer (erring upward), and whether that is too many for the engine.

A prompt far over the window must not reach an engine: 580,000 tokens for a window of 262,144 ended one, where 262,085 and the
answer were refused in order.
"""

from __future__ import annotations

from typing import Any

from pod.bridge.errors import ApiError, Overflow
from pod.bridge.settings import Settings
from pod.bridge.turn import Turn

# Below what English, code and Chinese take in common vocabularies, so that the estimate errs upward.
BYTES_PER_TOKEN = 2.5
IMAGE_TOKENS = 1600
MESSAGE_TOKENS = 8


def estimate(body: Any) -> int:
    """Tokens of system prompt, tools and messages of an Anthropic request; at least 1."""
    if not isinstance(body, dict):
        return 1
    messages = body.get("messages")
    count = MESSAGE_TOKENS * (len(messages) if isinstance(messages, list) else 1)
    pending = [messages, body.get("system"), body.get("tools")]
    size = 0
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            if value.get("type") == "image":
                count += IMAGE_TOKENS
                continue
            size += sum(len(key) + 4 for key in value)
            pending += value.values()
    return max(1, count + round(size / BYTES_PER_TOKEN))


def limit_of(turn: Turn, settings: Settings) -> int | None:
    """The longest prompt in tokens that the engine may be given; None where nobody knows."""
    known = [value for value in (turn.window, settings.max_prompt_tokens) if value is not None]
    return min(known) if known else None


def wants_count(turn: Turn, settings: Settings) -> bool:
    """Whether the prompt may be too long, so that the engine's tokenizer has to be asked before the engine is."""
    limit = limit_of(turn, settings)
    return limit is not None and turn.estimate > limit


def too_long(turn: Turn, settings: Settings, counted: int | None = None) -> ApiError | None:
    """The refusal of a prompt that is too long. Where no tokenizer `counted` it, only what must be is refused: half the
    estimate stands for five bytes a token."""
    limit = limit_of(turn, settings)
    tokens = turn.estimate // 2 if counted is None else counted
    return None if limit is None or tokens <= limit else ApiError(400, Overflow(limit, tokens, 0, counted is not None).wording())
