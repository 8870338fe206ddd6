"""Kubernetes manifests: containers that start an engine, in whatever kind of object holds them, with the ConfigMaps beside them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.files import Mount, Text
from compiler.foreign.launch import Launch, in_image
from compiler.foreign.outside import DEFAULT_SHARED, Container
from compiler.foreign.shell import Shell
from compiler.foreign.source import Piece, Source, Word, word_of
from compiler.foreign.yaml_tree import Tree

_REFERENCE = re.compile(r"\$(?:\$\(|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
# Kubernetes knows no such variables: a program such as envsubst fills them in before the manifest is applied.
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
ConfigMaps = Mapping[str, Mapping[str, Tree]]


def is_kubernetes(tree: Tree) -> bool:
    """True for a document with `apiVersion` and `kind`."""
    return tree.get("apiVersion") is not None and tree.get("kind") is not None


def config_maps(trees: Iterable[Tree]) -> dict[str, dict[str, Tree]]:
    """The data of each ConfigMap by its name."""
    found: dict[str, dict[str, Tree]] = {}
    for tree in trees:
        kind, name, data = tree.get("kind"), tree.get("metadata", "name"), tree.get("data")
        if kind is not None and kind.text == "ConfigMap" and name is not None and name.text is not None and data is not None:
            found[name.text] = {key: value for key, _, value in data.items()}
    return found


def kubernetes_launches(source: Source, tree: Tree, maps: ConfigMaps) -> tuple[list[Launch], list[Diagnostic]]:
    """Each container of an object that starts an engine, and what is wrong with those before the engine looks."""
    problems: list[Diagnostic] = []
    found = [_container(source, container, pod, maps, problems) for container, pod in _containers(tree)]
    return [launch for launch in found if launch is not None], problems


def _containers(tree: Tree) -> Iterator[tuple[Tree, Tree]]:
    """Containers at any depth, each with its pod: Deployments, Jobs, Pods, Lists and most kinds of operators have them below `containers`."""
    containers = tree.get("containers")
    if containers is not None and containers.is_list:
        yield from ((container, tree) for container in containers.elements())
        return
    for _, _, value in tree.items():
        for inner in (value, *value.elements()):
            yield from _containers(inner)


def _container(source: Source, container: Tree, pod: Tree, maps: ConfigMaps, problems: list[Diagnostic]) -> Launch | None:
    name, image = container.get("name"), container.get("image")
    env = {**dict(_env_from(container.get("envFrom"), maps)), **dict(_environment(container.get("env"), maps))}
    mine: list[Diagnostic] = []
    entrypoint, arguments = (_list(source, key, container.get(key), env, mine) for key in ("command", "args"))
    word = _filled(Word(image.piece(), image.span), {}) if image is not None and image.text is not None else None
    launch = in_image(source, word, entrypoint, arguments, env, (name.text or "") if name is not None else "")
    if launch is None:
        return None
    problems += mine
    box = Container(_shared(container, pod), has_gpus=True)  # A device plugin may hand them out by other names.
    return dataclasses.replace(launch, gpus=_gpus(container), mounts=tuple(_mounts(container, pod, maps)), container=box)


def _shared(container: Tree, pod: Tree) -> int | None:
    """Bytes of /dev/shm: what the container runtime mounts, unless a volume takes its place or the host's is used."""
    targets = [target.text for mount in _elements(container.get("volumeMounts")) if (target := mount.get("mountPath")) is not None]
    host = pod.get("hostIPC")
    return None if "/dev/shm" in targets or (host is not None and host.text == "true") else DEFAULT_SHARED


def _env_from(tree: Tree | None, maps: ConfigMaps) -> Iterator[tuple[str, Word]]:
    """Variables of whole ConfigMaps; those of Secrets, and of maps that nobody gave, have no names here."""
    for item in tree.elements() if tree is not None else []:
        name, prefix = item.get("configMapRef", "name"), item.get("prefix")
        for key, value in maps.get((name.text or "") if name is not None else "", {}).items():
            if name is not None and value.text is not None:
                yield f"{(prefix.text or '') if prefix is not None else ''}{key}", word_of(value.text, name.span)


def _environment(tree: Tree | None, maps: ConfigMaps) -> Iterator[tuple[str, Word]]:
    """Variables by name; one from a Secret, a field, or a ConfigMap that nobody gave is named as unknown."""
    for item in tree.elements() if tree is not None else []:
        name, value = item.get("name"), item.get("value")
        if name is None or name.text is None:
            continue
        held = _of_map(item.get("valueFrom", "configMapKeyRef"), maps)
        if value is not None and value.text is not None:
            yield name.text, _filled(Word(value.piece(), value.span), {})
        elif held is not None:
            yield name.text, word_of(held, name.span)
        else:
            yield name.text, Word(name.piece(), name.span, (name.text,))


def _of_map(reference: Tree | None, maps: ConfigMaps) -> str | None:
    """The value that a key of a given ConfigMap has."""
    name, key = (reference.get(part) if reference is not None else None for part in ("name", "key"))
    if name is None or key is None:
        return None
    value = maps.get(name.text or "", {}).get(key.text or "")
    return value.text if value is not None else None


def _list(source: Source, key: str, tree: Tree | None, env: Mapping[str, Word], problems: list[Diagnostic]) -> list[Word]:
    """A command or its arguments. Text, which Kubernetes refuses, is cut as a shell would."""
    if tree is None:
        return []
    if tree.text is not None:
        what = f"`{key}` is text, and Kubernetes takes only a list"
        problems.append(
            source.finding(
                "CMD010", Severity.ERROR, what, "The API server refuses the manifest.", "Write a list, one word an item.", tree.span
            )
        )
        shell = Shell(source, tree.piece())
        words = [word for command in shell.commands() for word in command]
        return [] if shell.problems else [_filled(word, env) for word in words]
    return [_filled(Word(item.piece(), item.span), env) for item in tree.elements() if item.text is not None]


def _filled(word: Word, env: Mapping[str, Word]) -> Word:
    """A word with `$(NAME)` read from the container's own variables, as Kubernetes does; any other name stays as it is.

    `${NAME}` as a whole word is a placeholder that somebody fills in before: it is named as unknown.
    """
    chars: list[str] = []
    offsets: list[int] = []
    unknown = list(word.unknown)
    at = 0
    for match in _REFERENCE.finditer(word.text):
        value = env.get(match[1]) if match[1] else None
        if value is None:
            continue
        chars += word.text[at : match.start()] + (match[0] if value.unknown else value.text)
        offsets += word.piece.offsets[at : match.start()]
        offsets += (word.piece.offsets[match.start()],) * len(match[0] if value.unknown else value.text)
        unknown += value.unknown
        at = match.end()
    if " " not in word.text:
        unknown += _PLACEHOLDER.findall(word.text)
    return Word(Piece("".join([*chars, *word.text[at:]]), (*offsets, *word.piece.offsets[at:])), word.span, tuple(dict.fromkeys(unknown)))


def _mounts(container: Tree, pod: Tree, maps: ConfigMaps) -> Iterator[Mount]:
    """What given ConfigMaps put into the container, as whole folders or, by `subPath`, as single files."""
    volumes = {name.text: volume for volume in _elements(pod.get("volumes")) if (name := volume.get("name")) is not None}
    for mount in _elements(container.get("volumeMounts")):
        name, target, single = mount.get("name"), mount.get("mountPath"), mount.get("subPath")
        volume = volumes.get(name.text) if name is not None else None
        if volume is None or target is None or target.text is None:
            continue
        texts = dict(_texts(volume, maps))
        if single is not None:
            texts = {"": texts[single.text]} if single.text in texts else {}
        yield Mount(target.text, texts={key: text for key, text in texts.items() if key is not None})


def _texts(volume: Tree, maps: ConfigMaps) -> Iterator[tuple[str, Text]]:
    """Texts of a ConfigMap's volume by the file names that it gives them."""
    name, items = volume.get("configMap", "name"), volume.get("configMap", "items")
    data = maps.get(name.text or "", {}) if name is not None else {}
    paths = {key: key for key in data}
    if items is not None:
        pairs = [(item.get("key"), item.get("path")) for item in items.elements()]
        paths = {(key.text or ""): (path.text or "") for key, path in pairs if key is not None and path is not None}
    for key, path in paths.items():
        value = data.get(key)
        if value is not None and value.text is not None:
            piece = value.piece()
            yield path, Text(Source(value.source.path, piece.text), (value.source, piece))


def _elements(tree: Tree | None) -> list[Tree]:
    return tree.elements() if tree is not None else []


def _gpus(container: Tree) -> int | None:
    for kind in ("limits", "requests"):
        count = container.get("resources", kind, "nvidia.com/gpu")
        if count is not None and (count.text or "").isdigit():
            return int(count.text or 0)
    return None
