"""System prompts: a text or blocks -> one text, without the client's attribution block.

Claude Code puts a block first that changes with each request (`x-anthropic-billing-header: ...; cch=...;`). As the first
tokens of the prompt it would make the whole prefix cache useless: 0 % of the prompt was cached with it, 98.5 % without.
"""

from __future__ import annotations

import re
from typing import Any

from pod.bridge.errors import InvalidRequestError

_ATTRIBUTION = re.compile(r"\A\s*x-anthropic-billing-header:[^\n]*\n?", re.IGNORECASE)
SEPARATOR = "\n\n"


def without_attribution(text: str) -> str:
    """The text without an attribution line at its very beginning; a mention further on stays."""
    return _ATTRIBUTION.sub("", text, count=1)


def system_texts(system: Any, route: str = "system") -> list[str]:
    """The texts of a system prompt, in order, none of them empty. Raises InvalidRequestError for what is no system prompt."""
    if system is None:
        return []
    if isinstance(system, str):
        texts = [without_attribution(system)]
    elif isinstance(system, list):
        texts = [without_attribution(_block_text(block, f"{route}.{i}")) for i, block in enumerate(system)]
    else:
        raise InvalidRequestError(route, "must be a string or a list of text blocks")
    return [text for text in texts if text]


def _block_text(block: Any, route: str) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        raise InvalidRequestError(route, "must be a text block")
    text = block.get("text")
    if block.get("type", "text") == "text" and not isinstance(text, str):
        raise InvalidRequestError(f"{route}.text", "must be a string")
    return text if isinstance(text, str) else ""
