"""Docker Compose files: services that start an engine, with Compose's own variables filled in where the file gives a value."""

from __future__ import annotations

import dataclasses
import re

from compiler.foreign.launch import Launch, in_image
from compiler.foreign.shell import Shell
from compiler.foreign.source import Piece, Source, Word
from compiler.foreign.yaml_tree import Tree

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<named>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:?[-+?])(?P<other>[^{}]*))?\})"
)


def is_compose(tree: Tree) -> bool:
    """True for a document with `services`."""
    services = tree.get("services")
    return services is not None and services.is_mapping


def compose_launches(source: Source, tree: Tree) -> list[Launch]:
    """Each service that starts an engine."""
    services = tree.get("services")
    found = [_service(source, name, service) for name, _, service in services.items()] if services is not None else []
    return [launch for launch in found if launch is not None]


def _service(source: Source, name: str, service: Tree) -> Launch | None:
    image = service.get("image")
    word = _filled(image) if image is not None and image.text is not None else None
    entrypoint, command = _words(source, service.get("entrypoint")), _words(source, service.get("command"))
    launch = in_image(source, word, entrypoint, command, _environment(service.get("environment")), name)
    return dataclasses.replace(launch, gpus=_gpus(service)) if launch is not None else None


def _words(source: Source, tree: Tree | None) -> list[Word]:
    """A command as a list, or as text that is cut as a shell cuts it."""
    if tree is None:
        return []
    if tree.is_list:
        return [_filled(item) for item in tree.elements() if item.text is not None]
    if tree.text is None:
        return []
    filled = _filled(tree)
    # Compose fills variables in before it cuts words, so a dollar that is left means itself to the cutting, and to a shell inside.
    shell = Shell(source, Piece(filled.text.replace("$", "\x00"), filled.piece.offsets))
    words = [_with_dollars(word, filled.unknown) for command in shell.commands() for word in command]
    return words if not shell.problems else []


def _with_dollars(word: Word, unknown: tuple[str, ...]) -> Word:
    text = word.text.replace("\x00", "$")
    return Word(Piece(text, word.piece.offsets), word.span, tuple(name for name in unknown if f"${{{name}}}" in text))


def _environment(tree: Tree | None) -> dict[str, Word]:
    """`environment` as a mapping or as a list of NAME=value; a name alone is passed through from wherever Compose runs."""
    env: dict[str, Word] = {}
    if tree is None:
        return env
    for name, key, value in tree.items():
        env[name] = _filled(value) if value.text is not None else dataclasses.replace(_filled(key), unknown=(name,))
    for item in tree.elements():
        word = _filled(item)
        name, equals, _ = word.text.partition("=")
        env[name] = word.cut(len(name) + 1) if equals else dataclasses.replace(word, unknown=(name,))
    return env


def _filled(tree: Tree) -> Word:
    """A scalar with `$$`, `$X` and `${X:-y}` read as Compose reads them; a variable without a value stays and is named."""
    piece = tree.piece()
    chars: list[str] = []
    offsets: list[int] = []
    unknown: list[str] = []
    at = 0
    for match in _VARIABLE.finditer(piece.text):
        chars += piece.text[at : match.start()]
        offsets += piece.offsets[at : match.start()]
        text, places = _value(match, piece)
        chars += text
        offsets += places
        if not match["escaped"] and match["how"] not in (":-", "-"):
            unknown.append(match["named"] or match["braced"])
        at = match.end()
    filled = Piece("".join([*chars, *piece.text[at:]]), (*offsets, *piece.offsets[at:]))
    return Word(filled, tree.span, tuple(unknown))


def _value(match: re.Match[str], piece: Piece) -> tuple[str, tuple[int, ...]]:
    if match["escaped"]:
        return "$", piece.offsets[match.start() : match.start() + 1]
    if match["how"] in (":-", "-"):
        start, end = match.span("other")
        return match["other"], piece.offsets[start:end]
    text = f"${{{match['named'] or match['braced']}}}"
    return text, (piece.offsets[match.start()],) * len(text)


def _gpus(service: Tree) -> int | None:
    """The GPUs that the service reserves, where it says a number."""
    devices = service.get("deploy", "resources", "reservations", "devices")
    for device in devices.elements() if devices is not None else []:
        count, ids = device.get("count"), device.get("device_ids")
        if count is not None and (count.text or "").isdigit():
            return int(count.text or 0)
        if ids is not None and ids.is_list:
            return len(ids.elements())
    return None
