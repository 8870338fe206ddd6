"""YAML that others wrote, as a tree with places: several documents, anchors, aliases and merges are theirs to use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import yaml

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.source import Piece, Source, Span
from compiler.load.yaml_text import shown, too_deep

MAX_INDENT = 400  # White space and line breaks between two characters of a text; one that is farther away is an escape.
MAX_NODES = 50_000  # Aliases of aliases make a small file endless; a manifest has some hundred nodes.


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """One node: a mapping, a list or a text."""

    source: Source
    node: yaml.Node

    @property
    def span(self) -> Span:
        """Where it stands; of a mapping or a list only its first line."""
        start, end = self.node.start_mark, self.node.end_mark
        first = start.index
        last = end.index if end.line == start.line else self.source.text.find("\n", first)
        return Span(first, max(first + 1, last if last >= 0 else len(self.source.text)))

    @property
    def is_list(self) -> bool:
        """True for a list."""
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_mapping(self) -> bool:
        """True for a mapping."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def text(self) -> str | None:
        """A scalar as it was written, without its quotes; None for null and for what is no scalar."""
        if not isinstance(self.node, yaml.ScalarNode) or (not self.node.style and self.node.value in ("", "~", "null")):
            return None
        return str(self.node.value)

    def items(self) -> Iterator[tuple[str, Tree, Tree]]:
        """Key as text, key and value of a mapping; what is merged into it comes last, unless the mapping has it itself."""
        if not isinstance(self.node, yaml.MappingNode):
            return
        seen: set[str] = set()
        merged: list[Tree] = []
        for key, value in self.node.value:
            if key.value == "<<" and not getattr(key, "style", None):
                inner = value.value if isinstance(value, yaml.SequenceNode) else [value]
                merged += [Tree(self.source, node) for node in inner]
            elif isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
                yield key.value, Tree(self.source, key), Tree(self.source, value)
        for tree in merged:
            for name, key_tree, value_tree in tree.items():
                if name not in seen:
                    seen.add(name)
                    yield name, key_tree, value_tree

    def get(self, *route: str) -> Tree | None:
        """The value below a chain of keys; None where one is missing."""
        tree: Tree | None = self
        for key in route:
            tree = next((value for name, _, value in tree.items() if name == key), None) if tree is not None else None
        return tree

    def elements(self) -> list[Tree]:
        """Items of a list; none for anything else."""
        return [Tree(self.source, node) for node in self.node.value] if isinstance(self.node, yaml.SequenceNode) else []

    def piece(self) -> Piece:
        """A scalar's characters, each with its place: found in turn, as YAML leaves out of the source only white space and escapes."""
        value = self.text or ""
        at, end = self.node.start_mark.index, max(self.node.end_mark.index, self.node.start_mark.index + 1)
        if isinstance(self.node, yaml.ScalarNode) and self.node.style in ("|", ">"):
            line = self.source.text.find("\n", at)
            at = line + 1 if line >= 0 else at
        offsets = []
        for c in value:
            found = at if c.isspace() else self.source.text.find(c, at, min(end, at + MAX_INDENT))
            here = min(found if found >= 0 else at, end - 1)
            offsets.append(here)
            at = here + (0 if c.isspace() else 1)
        return Piece(value, tuple(offsets))


def documents(source: Source) -> tuple[list[Tree], list[Diagnostic]]:
    """All documents of a source that are not empty, and what is wrong with it as YAML."""
    lines = tuple(source.text.split("\n"))
    deep = too_deep(source.path, source.text, lines)
    if deep is not None:
        return [], [dataclasses.replace(deep, code="CMD001")]
    try:
        nodes = [node for node in yaml.compose_all(source.text, Loader=yaml.SafeLoader) if node is not None]
    except (yaml.YAMLError, RecursionError) as error:
        return [], [_not_yaml(source, error)]
    if sum(_size(node, MAX_NODES) for node in nodes) >= MAX_NODES:
        what = f"more than {MAX_NODES:,} nodes once its aliases are followed"
        return [], [
            source.finding(
                "CMD001", Severity.ERROR, what, "Reading it could exhaust memory.", "Give the part that starts the engine.", Span(0, 1)
            )
        ]
    return [Tree(source, node) for node in nodes], []


def _not_yaml(source: Source, error: Exception) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = min(mark.index, max(0, len(source.text) - 1)) if mark else 0
    what = f"not valid YAML: {shown(str(getattr(error, 'problem', None) or 'it cannot be read'), 120)}"
    return source.finding(
        "CMD001",
        Severity.ERROR,
        what,
        "The file cannot be read at all.",
        "Mend it, or give the command itself with --command.",
        Span(at, at + 1),
    )


def _size(root: yaml.Node, limit: int) -> int:
    """Nodes below `root`, each counted as often as aliases repeat it, up to `limit`."""
    count, waiting = 0, [root]
    while waiting and count < limit:
        node = waiting.pop()
        count += 1
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return count
