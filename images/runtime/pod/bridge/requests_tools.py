"""Tools and tool_choice: Anthropic's -> one plain list of name, description and schema.

Tools that the client itself runs under a type of Anthropic's (bash, text editor, computer, memory) come without a schema: the
model gets a schema here. Tools that Anthropic's servers run (web search, web fetch, code execution, tool search) cannot
exist on this server: they are left out, and the system prompt says so, instead of refusing each turn of the session.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pod.bridge.errors import InvalidRequestError

_TEXT: dict[str, Any] = {"type": "string"}
_PAIR: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_NUMBER: dict[str, Any] = {"type": "integer"}
_EDITOR = {"path": _TEXT, "file_text": _TEXT, "old_str": _TEXT, "new_str": _TEXT, "insert_line": _NUMBER, "insert_text": _TEXT,
           "view_range": _PAIR}  # fmt: skip


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _command(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


# By the beginning of the type; the date behind it does not matter here.
_CLIENT_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash_": ("Runs a command in a persistent shell.", _schema([], command=_TEXT, restart={"type": "boolean"})),
    "text_editor_": ("Views and edits files.",
                     _schema(["command", "path"], command=_command("view", "create", "str_replace", "insert"), **_EDITOR)),
    "memory_": ("Reads and writes files of a memory directory.",
                _schema(["command"], command=_command("view", "create", "str_replace", "insert", "delete", "rename"),
                        old_path=_TEXT, new_path=_TEXT, **_EDITOR)),
    "computer_": ("Looks at and operates a computer's screen.",
                  _schema(["action"], action=_TEXT, coordinate=_PAIR, start_coordinate=_PAIR, text=_TEXT, duration={"type": "number"},
                          scroll_direction=_command("up", "down", "left", "right"), scroll_amount=_NUMBER)),
}  # fmt: skip


class Tool(NamedTuple):
    """One function tool."""

    name: str
    description: str | None
    schema: dict[str, Any]
    strict: bool | None


class Choice(NamedTuple):
    """What the model may call: `kind` auto, any, tool (then `name`) or none; None where the request says nothing."""

    kind: str | None
    name: str | None
    one_at_most: bool


def tools_of(tools: Any, added: list[tuple[str, Any]]) -> tuple[list[Tool], list[str]]:
    """The tools of a request with those that its messages add, (route, definition) pairs, and the names of those that cannot
    exist here. Raises InvalidRequestError."""
    if tools is None:
        tools = []
    if not isinstance(tools, list):
        raise InvalidRequestError("tools", "must be a list")
    found: dict[str, Tool] = {}
    missing: list[str] = []
    for i, tool in enumerate(tools):
        if made := _tool(tool, f"tools.{i}", missing):
            found.setdefault(made.name, made)
    for route, tool in added:
        try:
            made = _tool(tool, route, missing)
        except InvalidRequestError:
            continue
        if made:
            found.setdefault(made.name, made)
    return list(found.values()), missing


def _tool(tool: Any, route: str, missing: list[str]) -> Tool | None:
    if not isinstance(tool, dict):
        raise InvalidRequestError(route, "must be an object")
    name, kind = tool.get("name"), tool.get("type")
    function = tool.get("function")
    if kind == "function" and isinstance(function, dict):
        return _tool({"name": function.get("name"), "description": function.get("description"),
                      "input_schema": function.get("parameters")}, route, missing)  # fmt: skip
    if kind == "mcp_toolset":
        missing.append(str(tool.get("mcp_server_name") or "mcp"))
        return None
    if not isinstance(name, str) or not name:
        raise InvalidRequestError(f"{route}.name", "must be a non-empty string")
    if kind in (None, "custom") or tool.get("input_schema") is not None:
        return _custom(tool, name, route)
    known = next((made for start, made in _CLIENT_TOOLS.items() if str(kind).startswith(start)), None)
    if known is None:
        missing.append(name)
        return None
    return Tool(name, known[0], known[1], None)


def _custom(tool: dict[str, Any], name: str, route: str) -> Tool:
    schema = tool.get("input_schema")
    if schema is None:
        schema = {}
    if not isinstance(schema, dict):
        raise InvalidRequestError(f"{route}.input_schema", "must be an object")
    schema = {key: value for key, value in schema.items() if value is not None}
    if "type" not in schema:
        schema = {"type": "object", **schema}
    if schema["type"] == "object" and not isinstance(schema.get("properties"), dict):
        schema = {**schema, "properties": {}}
    description = tool.get("description")
    strict = tool.get("strict")
    return Tool(name, description if isinstance(description, str) else None, schema, strict if isinstance(strict, bool) else None)


def choice_of(choice: Any, tools: list[Tool], missing: list[str]) -> Choice:
    """The tool_choice of a request; without a tool that it could be about it says nothing. Raises InvalidRequestError."""
    if choice is None:
        return Choice(None, None, False)
    if isinstance(choice, str):
        choice = {"type": choice}
    if not isinstance(choice, dict):
        raise InvalidRequestError("tool_choice", "must be an object")
    kind, name = choice.get("type"), choice.get("name")
    if kind not in ("auto", "any", "tool", "none"):
        raise InvalidRequestError("tool_choice.type", "must be auto, any, tool or none")
    one_at_most = choice.get("disable_parallel_tool_use") is True
    if kind == "tool":
        if not isinstance(name, str) or not name:
            raise InvalidRequestError("tool_choice.name", "must be a non-empty string")
        if name in missing:
            return Choice("auto" if tools else None, None, one_at_most)
        if name not in {tool.name for tool in tools}:
            raise InvalidRequestError("tool_choice.name", "names no tool of this request")
    if not tools:
        return Choice(None, None, False)
    return Choice(str(kind), name if kind == "tool" else None, one_at_most)


def missing_note(missing: list[str]) -> str:
    """What the model is told of tools that cannot exist on this server."""
    names = ", ".join(dict.fromkeys(missing))
    return f"Not available in this session: {names}. Do not pretend to have used it; say so if it would be needed."


def chat_tool(tool: Tool) -> dict[str, Any]:
    """The tool as /v1/chat/completions takes it."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def chat_choice(choice: Choice) -> dict[str, Any]:
    """The fields of /v1/chat/completions for a choice."""
    fields: dict[str, Any] = {}
    if choice.kind == "tool":
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice.kind is not None:
        fields["tool_choice"] = {"auto": "auto", "any": "required", "none": "none"}[choice.kind]
    if choice.one_at_most:
        fields["parallel_tool_calls"] = False
    return fields
