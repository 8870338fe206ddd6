"""Changes to the text of a spec by its positions: what is not changed stays as it is, byte for byte.

An edit is made only where the outcome is certain: the text after it is read again, and must say what the text before said
with that one change. Everything else is left to a person.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import yaml

from compiler.diagnostics import Edit, Route
from compiler.load.yaml_text import parsed

_LINES = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029]|$)")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")  # Text that needs no quotes, whichever YAML reads it, unless it is one of these words.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_NOTHING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """Where one key or item stands: its node, its key's, the collection around it, and its number in there."""

    key: yaml.Node | None
    value: yaml.Node
    around: yaml.CollectionNode
    index: int


def edited(text: str, edit: Edit) -> str | None:
    """The text with one edit made; None where it cannot be made with certainty, or where it would change nothing."""
    marked, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    before, problems = parsed("", body)
    if problems or not isinstance(before.data, dict) or not edit.place.route:
        return None
    root: yaml.Node = yaml.compose(body, Loader=yaml.SafeLoader)  # type: ignore[assignment]  # There is data, so there is a node.
    route = _long_form(before.data, edit)
    changed = _changed_text(_Text(body), root, dataclasses.replace(edit, place=dataclasses.replace(edit.place, route=route)))
    if changed is None or changed == body:
        return None
    after, problems = parsed("", changed)
    return marked + changed if not problems and after.data == _changed_data(before.data, route, edit) else None


class _Text:
    """Text whose places can be asked for by YAML's line and column; both from 0."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [m.start() for m in _LINES.finditer(text)]

    def offset(self, mark: yaml.Mark) -> int:
        """Offset of a mark."""
        return self.starts[mark.line] + mark.column if mark.line < len(self.starts) else len(self.text)

    def line_start(self, offset: int) -> int:
        """Offset at which the line of `offset` begins."""
        return max(start for start in self.starts if start <= offset)

    def next_line(self, offset: int) -> int:
        """Offset at which the line after that of `offset` begins, or the end."""
        return min((start for start in self.starts if start > offset), default=len(self.text))

    def newline(self) -> str:
        """The line break that the text uses."""
        return "\r\n" if "\r\n" in self.text else "\n"


def _long_form(data: Any, edit: Edit) -> Route:
    """The route of the value itself where a choice is written as `{value: ..., reason: ...}`."""
    inner = _at(data, edit.place.route)
    return (*edit.place.route, "value") if edit.action == "set" and isinstance(inner, dict) and "value" in inner else edit.place.route


def _changed_text(text: _Text, root: yaml.Node, edit: Edit) -> str | None:
    route = edit.place.route
    entry = _entry(root, route)
    if edit.action == "set" and entry is None:
        return _with_key(text, root, route, edit.value)
    if entry is None:
        return None
    if edit.action == "remove":
        return _without(text, root, route, entry)
    if edit.action == "rename":
        return _replaced(text, entry.key, str(edit.value)) if entry.key is not None and len(route) > 1 else None
    return _replaced(text, entry.value, scalar(edit.value)) if isinstance(entry.value, yaml.ScalarNode) else None


def scalar(value: object) -> str:
    """A value as YAML writes it on one line, quoted wherever a reader could take it for something else."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    # Some characters that nobody sees end a line for YAML, or are refused.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in json.dumps(value, ensure_ascii=False))


def _replaced(text: _Text, node: yaml.Node, word: str) -> str | None:
    start, end = text.offset(node.start_mark), text.offset(node.end_mark)
    if node.start_mark.line != node.end_mark.line:
        return None  # A block of text, whose end holds the line break that the next key needs.
    return text.text[:start] + word + text.text[end:]


def _with_key(text: _Text, root: yaml.Node, route: Route, value: object) -> str | None:
    """The text with a new key as the last one of a mapping that is there."""
    above = _entry(root, route[:-1])
    parent = root if len(route) == 1 else above.value if above else None
    if not isinstance(parent, yaml.MappingNode) or not parent.value or not isinstance(route[-1], str):
        return None
    key, last = parent.value[-1]
    end, words = text.offset(_inner_end(last)), f"{scalar(route[-1])}: {scalar(value)}"
    if parent.flow_style:
        return f"{text.text[:end]}, {words}{text.text[end:]}"
    at = text.next_line(max(text.offset(key.end_mark), end - 1))
    gap = "" if text.text[:at].endswith(("\n", "\r")) else text.newline()
    return f"{text.text[:at]}{gap}{' ' * key.start_mark.column}{words}{text.newline()}{text.text[at:]}"


def _without(text: _Text, root: yaml.Node, route: Route, entry: _Entry) -> str | None:
    """The text without an entry; with it goes what would be left empty."""
    if len(route) < 2:
        return None
    if len(entry.around.value) == 1:
        above = _entry(root, route[:-1])
        return _without_entry(text, above) if above is not None else None
    return _without_entry(text, entry)


def _without_entry(text: _Text, entry: _Entry) -> str | None:
    if entry.around.flow_style:
        return _without_in_line(text, entry)
    first = entry.key or entry.value
    last = max(text.offset(first.start_mark), text.offset(_inner_end(entry.value)) - 1)
    start, end = text.line_start(text.offset(first.start_mark)), text.next_line(last)
    lead = text.text[start : text.offset(first.start_mark)]
    if lead.strip(" -") or (lead.strip() and entry.key is not None):
        return None  # Something else begins on the same line.
    return text.text[:start] + text.text[end:]


def _without_in_line(text: _Text, entry: _Entry) -> str:
    """Without one entry of `{a: 1, b: 2}` and the comma that belongs to it."""
    start, end = text.offset((entry.key or entry.value).start_mark), text.offset(entry.value.end_mark)
    rest = re.match(r"\s*,[ \t]*", text.text[end:])
    if rest:
        return text.text[:start] + text.text[end + rest.end() :]
    return re.sub(r",\s*$", "", text.text[:start]) + text.text[end:]


def _inner_end(node: yaml.Node) -> yaml.Mark:
    """Where a node's own text ends. A block ends, for YAML, only where the next thing begins."""
    if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) and not node.flow_style and node.value:
        last = node.value[-1]
        return _inner_end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark


def _entry(root: yaml.Node, route: Route) -> _Entry | None:
    found: _Entry | None = None
    node = root
    for part in route:
        if isinstance(node, yaml.MappingNode):
            index = next((i for i, (key, _) in enumerate(node.value) if key.value == part), None)
            if index is None:
                return None
            found = _Entry(node.value[index][0], node.value[index][1], node, index)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = _Entry(None, node.value[part], node, part)
        else:
            return None
        node = found.value
    return found


def _at(data: Any, route: Route) -> Any:
    for part in route:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return _NOTHING
    return data


def _changed_data(data: Any, route: Route, edit: Edit) -> Any:
    """What the text must say after the edit."""
    part, rest = route[0], route[1:]
    items: dict[str | int, Any] = dict(enumerate(data)) if isinstance(data, tuple) else dict(data)
    inner = _changed_data(items[part], rest, edit) if rest else None
    if rest and (inner or edit.action != "remove" or len(rest) > 1):
        items[part] = inner
    elif edit.action == "remove":
        del items[part]  # And with the last entry of a collection the collection: nothing stays that says nothing.
    elif edit.action == "set":
        items[part] = edit.value
    else:
        items = {(str(edit.value) if key == part else key): value for key, value in items.items()}
    return tuple(items.values()) if isinstance(data, tuple) else items
