"""Strict YAML: text to plain data with a source map. What YAML would reinterpret silently is a finding here.

Refused: tabs, duplicate keys, anchors, aliases and merges, explicit tags, keys that are not text, and plain scalars that
YAML 1.1 and 1.2 read differently (`no`, `on`, `1e6`, `010`, `1_000`, `0x1f`, `1:30`, `2026-08-23`, `~`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import yaml

from compiler.diagnostics import Diagnostic, Place, Position, Route, Severity, printable

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_BYTES = 1 << 20  # A spec is a page or two; a megabyte is a wrong file, and parsing it would take seconds.
MAX_DEPTH = 64  # Specs nest six levels; this bounds recursion for hostile input.
MAX_DIGITS = 18  # More digits than any quantity of a spec has, and few enough for every JSON reader.

_INT = re.compile(r"^[-+]?(0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^[-+]?[0-9]+\.[0-9]+$")
_AMBIGUOUS_BOOL = {"yes", "no", "on", "off", "y", "n"}
_AMBIGUOUS_NUMBER = re.compile(
    r"^[-+]?(0[0-9_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0b[01_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?"
    r"|[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+|\.[0-9]+([eE][-+]?[0-9]+)?|[0-9]+\.|[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?|[-+]?\.(inf|Inf|INF|nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?|=)$"
)
_LINE_BREAK = re.compile("[\n\r\x85\u2028\u2029]")  # What YAML 1.1 takes for one; \r\n is one break already when text arrives here.
_MAY_HOLD_PROPERTY = re.compile(r"(?:^|[\s\[{,:?-])[&*!]|^%", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """Where a value stands, and its key where it has one; lines and columns from 0."""

    line: int
    column: int
    length: int
    key_line: int
    key_column: int
    key_length: int


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One parsed file: its name for messages, its lines, its data (lists as tuples) and a mark for every route."""

    path: str
    lines: tuple[str, ...]
    data: Any
    marks: dict[Route, Mark]

    def position(self, route: Route, *, on_key: bool = False) -> Position:
        """Line, column and text of a route, or of its nearest ancestor that exists."""
        for end in range(len(route), -1, -1):
            mark = self.marks.get(route[:end])
            if mark is not None:
                return self._position(mark, on_key=on_key and end == len(route))
        return Position(1, 1, 1, self.lines[0] if self.lines else "")

    def _position(self, mark: Mark, *, on_key: bool) -> Position:
        line, column, length = (mark.key_line, mark.key_column, mark.key_length) if on_key else (mark.line, mark.column, mark.length)
        text = self.lines[line] if line < len(self.lines) else ""
        return Position(line + 1, column + 1, max(1, min(length, len(text) - column)), text)


def parsed(path: str, text: str) -> tuple[Document, list[Diagnostic]]:
    """The document in `text` and everything that is wrong with it as YAML. On a syntax error its data is None."""
    lines = tuple(_LINE_BREAK.split(text))
    problem = _forbidden_syntax(path, text, lines)
    if problem:
        return Document(path, lines, None, {}), [problem]
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        return Document(path, lines, None, {}), [_syntax_error(path, lines, error)]
    if node is None:
        return Document(path, lines, None, {}), [_at(path, lines, 0, 0, "SPC002", "the file is empty", "A spec must say at least its kind.", "Start from `podwright new`.")]
    reader = _Reader(path, lines)
    data = reader.value(node, (), None)
    return Document(path, lines, data, reader.marks), reader.diagnostics


class _Reader:
    """Walks composed nodes once: builds the data, the marks, and the list of findings."""

    def __init__(self, path: str, lines: tuple[str, ...]) -> None:
        self.path, self.lines = path, lines
        self.marks: dict[Route, Mark] = {}
        self.diagnostics: list[Diagnostic] = []

    def value(self, node: yaml.Node, route: Route, key: yaml.Node | None) -> Any:
        self.marks[route] = _mark(node, key)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, route)
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, (*route, i), None) for i, item in enumerate(node.value))
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, route: Route) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(key_node, "SPC003", "a key must be plain text", "A mapping or list as a key has no meaning in a spec.", "Write one word before the colon.")
                continue
            if key == "<<" and not key_node.style:
                self._add(key_node, "SPC007", "merges are not allowed", "A reader, and the editor's checks, must see each value where it stands.", "Write the values out, or let the profile use `extends:`.")
                continue
            if key in result:
                first = self.marks[(*route, key)].key_line + 1
                self._add(key_node, "SPC004", f"duplicate key `{shown(key)}`, first on line {first}", "YAML would silently keep the last one.", "Delete one of the two.")
                continue
            result[key] = self.value(value_node, (*route, key), key_node)
        return result

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text = node.value
        if node.style:  # Quoted or block text; plain scalars have no style.
            return text
        if text in ("true", "false"):
            return text == "true"
        if text in ("null", ""):
            return None
        if _INT.match(text):
            return int(text) if len(text) <= MAX_DIGITS else self._surprise(node, f"a number of more than {MAX_DIGITS} characters, which some tools would round")
        if _FLOAT.match(text):
            return float(text) if len(text) <= 2 * MAX_DIGITS else self._surprise(node, "a number with more digits than any tool keeps")
        if text.lower() in _AMBIGUOUS_BOOL or text in ("True", "TRUE", "False", "FALSE"):
            return self._surprise(node, "a truth value to some YAML readers and text to others", "Write true or false, or quote it if text is meant.")
        if text in ("~", "Null", "NULL") or _AMBIGUOUS_NUMBER.match(text):
            return self._surprise(node, "read differently by YAML 1.1 and 1.2", "Write the number in plain digits (a unit such as 1M or 256Ki is fine where the field allows it), null for nothing, or quote it if text is meant.")
        return text

    def _surprise(self, node: yaml.Node, what: str, fix: str = "Write it in plain digits, or quote it if text is meant.") -> None:
        self._add(node, "SPC006", f"`{shown(node.value)}` is {what}", "Two tools would read this file differently.", fix)

    def _add(self, node: yaml.Node, code: str, what: str, why: str, fix: str) -> None:
        length = max(1, node.end_mark.column - node.start_mark.column) if node.end_mark.line == node.start_mark.line else 1
        self.diagnostics.append(_at(self.path, self.lines, node.start_mark.line, node.start_mark.column, code, what, why, fix, length))


def shown(text: str, limit: int = 60) -> str:
    """Text for a message: control characters escaped, long text cut."""
    clean = printable(text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _mark(node: yaml.Node, key: yaml.Node | None) -> Mark:
    start, end = node.start_mark, node.end_mark
    length = end.column - start.column if end.line == start.line else 1
    if key is None:
        return Mark(start.line, start.column, length, start.line, start.column, length)
    key_length = key.end_mark.column - key.start_mark.column
    return Mark(start.line, start.column, length, key.start_mark.line, key.start_mark.column, key_length)


def _at(path: str, lines: tuple[str, ...], line: int, column: int, code: str, what: str, why: str, fix: str, length: int = 1) -> Diagnostic:
    text = lines[line] if line < len(lines) else ""
    return Diagnostic(code, Severity.ERROR, what, why, fix, Place(path), Position(line + 1, column + 1, length, text))


def _forbidden_syntax(path: str, text: str, lines: tuple[str, ...]) -> Diagnostic | None:
    """Tabs in indentation, anchors and aliases, and nesting too deep to read."""
    for number, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and line.strip():
            return _at(path, lines, number, indent.index("\t"), "SPC001", "tab in indentation", "YAML indents with spaces only.", "Replace the tab by spaces.")
    return (_node_property(path, text, lines) if _MAY_HOLD_PROPERTY.search(text) else None) or too_deep(path, text, lines)


def _node_property(path: str, text: str, lines: tuple[str, ...]) -> Diagnostic | None:
    """Anchors, aliases, tags and directives: composing would follow them without a trace, so the tokens are looked at."""
    try:
        for token in yaml.scan(text, Loader=_Loader):
            mark = token.start_mark
            if isinstance(token, (yaml.AnchorToken, yaml.AliasToken)):
                return _at(path, lines, mark.line, mark.column, "SPC007", "anchors, aliases and merges are not allowed", "A reader, and the editor's checks, must see each value where it stands.", "Write the value out, or let the profile use `extends:`.")
            if isinstance(token, (yaml.TagToken, yaml.DirectiveToken)):
                what = "tags are not allowed" if isinstance(token, yaml.TagToken) else "YAML directives are not allowed"
                return _at(path, lines, mark.line, mark.column, "SPC005", what, "Tags make YAML build objects; a spec is plain data.", "Remove it, or quote the value if text is meant.")
    except yaml.YAMLError:
        return None  # Composing reports the syntax error with its place.
    return None


def too_deep(path: str, text: str, lines: tuple[str, ...]) -> Diagnostic | None:
    """Only text that could nest deeply is parsed for it: events come without recursion."""
    longest_prefix = max((len(line) - len(line.lstrip(" -?:\t")) for line in lines), default=0)
    if text.count("[") + text.count("{") + longest_prefix <= MAX_DEPTH:
        return None
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    line, column = (event.start_mark.line, event.start_mark.column) if event.start_mark else (0, 0)
                    return _at(path, lines, line, column, "SPC008", f"nested deeper than {MAX_DEPTH} levels", "No spec needs this; reading it could exhaust memory.", "Flatten the file.")
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        return None
    return None


def _syntax_error(path: str, lines: tuple[str, ...], error: yaml.YAMLError) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line, mark.column) if mark else _reader_error_place(lines, error)
    problem = ", ".join(words for words in (getattr(error, "context", None), getattr(error, "problem", None)) if words) or getattr(error, "reason", None) or "not YAML"
    what = f"not valid YAML: {shown(str(problem), 120)}"
    return _at(path, lines, min(line, max(0, len(lines) - 1)), column, "SPC001", what, "The file cannot be read at all.", "Often a missing quote, a wrong indent, or a colon inside unquoted text.")


def _reader_error_place(lines: tuple[str, ...], error: yaml.YAMLError) -> tuple[int, int]:
    """A character that YAML forbids comes with an offset instead of a mark."""
    offset = getattr(error, "position", 0) or 0
    for number, line in enumerate(lines):
        if offset <= len(line):
            return number, offset
        offset -= len(line) + 1
    return 0, 0
