"""Kubernetes manifests: containers that start an engine, in whatever kind of object holds them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from compiler.foreign.launch import Launch, in_image
from compiler.foreign.source import Piece, Source, Word
from compiler.foreign.yaml_tree import Tree

_REFERENCE = re.compile(r"\$(?:\$\(|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")


def is_kubernetes(tree: Tree) -> bool:
    """True for a document with `apiVersion` and `kind`."""
    return tree.get("apiVersion") is not None and tree.get("kind") is not None


def kubernetes_launches(source: Source, tree: Tree) -> list[Launch]:
    """Each container of an object that starts an engine."""
    found = [_container(source, container) for container in _containers(tree)]
    return [launch for launch in found if launch is not None]


def _containers(tree: Tree) -> Iterator[Tree]:
    """Containers at any depth: a Deployment, a Job, a Pod, a List and most kinds of operators have them below `containers`."""
    containers = tree.get("containers")
    if containers is not None and containers.is_list:
        yield from containers.elements()
        return
    for _, _, value in tree.items():
        for inner in (value, *value.elements()):
            yield from _containers(inner)


def _container(source: Source, container: Tree) -> Launch | None:
    name, image = container.get("name"), container.get("image")
    env = dict(_environment(container.get("env")))
    entrypoint, arguments = (_list(container.get(key), env) for key in ("command", "args"))
    word = Word(image.piece(), image.span) if image is not None and image.text is not None else None
    launch = in_image(source, word, entrypoint, arguments, env, (name.text or "") if name is not None else "")
    return dataclasses.replace(launch, gpus=_gpus(container)) if launch is not None else None


def _environment(tree: Tree | None) -> Iterator[tuple[str, Word]]:
    """Variables by name; one from a Secret or a ConfigMap is named as unknown."""
    for item in tree.elements() if tree is not None else []:
        name, value = item.get("name"), item.get("value")
        if name is None or name.text is None:
            continue
        if value is not None and value.text is not None:
            yield name.text, Word(value.piece(), value.span)
        else:
            yield name.text, Word(name.piece(), name.span, (name.text,))


def _list(tree: Tree | None, env: Mapping[str, Word]) -> list[Word]:
    return [_filled(Word(item.piece(), item.span), env) for item in tree.elements() if item.text is not None] if tree is not None else []


def _filled(word: Word, env: Mapping[str, Word]) -> Word:
    """A word with `$(NAME)` read from the container's own variables, as Kubernetes does; any other name stays as it is."""
    chars: list[str] = []
    offsets: list[int] = []
    unknown: list[str] = []
    at = 0
    for match in _REFERENCE.finditer(word.text):
        value = env.get(match[1]) if match[1] else None
        if value is None:
            continue
        chars += word.text[at : match.start()] + (match[0] if value.unknown else value.text)
        offsets += word.piece.offsets[at : match.start()]
        offsets += (word.piece.offsets[match.start()],) * len(match[0]) if value.unknown else value.piece.offsets
        unknown += value.unknown
        at = match.end()
    return Word(Piece("".join([*chars, *word.text[at:]]), (*offsets, *word.piece.offsets[at:])), word.span, tuple(unknown))


def _gpus(container: Tree) -> int | None:
    for kind in ("limits", "requests"):
        count = container.get("resources", kind, "nvidia.com/gpu")
        if count is not None and (count.text or "").isdigit():
            return int(count.text or 0)
    return None
