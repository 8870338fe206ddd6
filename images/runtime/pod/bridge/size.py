"""How many tokens a request may have, without a tokenizer. Errs upward."""

from __future__ import annotations

from typing import Any

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
