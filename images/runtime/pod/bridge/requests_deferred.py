"""Deferred tools: on the Anthropic API the model does not know a tool with `defer_loading` until a `tool_reference` names it.

So it is here, where the client has a search of its own to make such references, as Claude Code 2.1.332 has (its list holds
a placeholder that must never be called). Where Anthropic's servers would search, nobody does, and the model knows all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pod.bridge.requests_tools import Tool

_SEARCH = "toolsearch"


def known(tools: list[Tool], body: dict[str, Any]) -> list[Tool]:
    """The tools that the model knows by now; those that were deferred come last, in the order in which they became known, so that
    the prompt in front of them stays what the prefix cache has."""
    given = body.get("tools")
    deferred = {str(tool.get("name")) for tool in given if isinstance(tool, dict) and tool.get("defer_loading") is True} if isinstance(given, list) else set()
    always = [tool for tool in tools if tool.name not in deferred]
    if not deferred or not any(tool.name.replace("_", "").lower() == _SEARCH for tool in always):
        return tools
    by_name = {tool.name: tool for tool in tools if tool.name in deferred}
    return always + [by_name[name] for name in dict.fromkeys(_named(body)) if name in by_name]


def _named(body: dict[str, Any]) -> Iterator[str]:
    """Names of tools in references, calls and the choice."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        for block in _blocks(message):
            if block.get("type") == "tool_use":
                yield str(block.get("name"))
            for part in (block, *_blocks(block)):
                if part.get("type") == "tool_reference":
                    yield str(part.get("tool_name"))
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        yield str(choice.get("name"))


def _blocks(holder: Any) -> list[dict[str, Any]]:
    content = holder.get("content") if isinstance(holder, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
