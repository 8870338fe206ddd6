"""Deferred tools: known to the model once something names them, and then behind the others."""

from __future__ import annotations

from typing import Any

import pytest
from pod.bridge import translate
from pod.bridge.models import Names
from pod.bridge.settings import Model, Settings

SETTINGS = Settings((Model(("m",), "http://127.0.0.1:1"),))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
SEARCH, READ = {"name": "ToolSearch", "input_schema": SCHEMA}, {"name": "Read", "input_schema": SCHEMA}
A, B = ({"name": name, "input_schema": SCHEMA, "defer_loading": True} for name in ("A", "B"))
SERVER_SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
HI = {"role": "user", "content": "hi"}


def found(*names: str) -> dict[str, Any]:
    parts = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": parts}]}


SEARCHED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ToolSearch", "input": {}}]}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "A", "input": {}}]}


@pytest.mark.parametrize(
    ("tools", "more", "shown"),
    [
        ([A, B, SEARCH, READ], [], ["ToolSearch", "Read"]),
        ([A, B, SEARCH, READ], [SEARCHED, found("B")], ["ToolSearch", "Read", "B"]),
        ([A, B, SEARCH, READ], [SEARCHED, found("B", "A", "C")], ["ToolSearch", "Read", "B", "A"]),
        ([A, B, SEARCH, READ], [CALLED], ["ToolSearch", "Read", "A"]),
        # Nobody here could search.
        ([A, B, READ], [], ["A", "B", "Read"]),
        ([A, SERVER_SEARCH, READ], [], ["A", "Read"]),
        ([A, B], [], ["A", "B"]),
    ],
)
def test_deferred_tools(tools: list[Any], more: list[Any], shown: list[str]) -> None:
    body = {"model": "m", "max_tokens": 9, "tools": tools, "messages": [HI, *more, *([HI] if more else [])]}
    made = translate.chat_request(body, SETTINGS, Names(SETTINGS.models))
    assert [tool["function"]["name"] for tool in made.body["tools"]] == shown


def test_a_forced_tool_is_known() -> None:
    body = {"model": "m", "max_tokens": 9, "tools": [A, SEARCH], "tool_choice": {"type": "tool", "name": "A"}, "messages": [HI]}
    made = translate.chat_request(body, SETTINGS, Names(SETTINGS.models))
    assert [tool["function"]["name"] for tool in made.body["tools"]] == ["ToolSearch", "A"]
