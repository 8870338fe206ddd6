"""Docker Compose files: services that start an engine, with Compose's own variables filled in where a file gives a value."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.files import Mount, loaded
from compiler.foreign.launch import Launch, in_image, mount_of
from compiler.foreign.outside import DEFAULT_SHARED, Container, size_of
from compiler.foreign.shell import Shell
from compiler.foreign.source import Piece, Source, Span, Word
from compiler.foreign.variables import env_file_values, filled
from compiler.foreign.yaml_tree import Tree

_IMAGE_OF_VLLM = re.compile(r"vllm", re.IGNORECASE)


def is_compose(tree: Tree) -> bool:
    """True for a document with `services`."""
    services = tree.get("services")
    return services is not None and services.is_mapping


def compose_launches(source: Source, tree: Tree, folder: Path) -> tuple[list[Launch], list[Diagnostic]]:
    """Each service that starts an engine, and what is wrong with those as Compose reads them. `folder` has `.env` and the env files."""
    reader = _Reader(source, folder)
    services = tree.get("services")
    for name, key, service in services.items() if services is not None else []:
        reader.read(name, key, service)
    return reader.launches, reader.problems


class _Reader:
    """Reads services one after another."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.launches: list[Launch] = []
        self.problems: list[Diagnostic] = []
        self.required: dict[str, tuple[str, Span]] = {}
        text, _ = loaded(folder / ".env")
        self.values = {name: word.text for name, word in env_file_values(text.text, {}, Span(0, 1)).items() if not word.unknown}

    def read(self, name: str, key: Tree, service: Tree) -> None:
        """One service: a launch, or nothing."""
        self.required = {}
        image = service.get("image")
        word = self._filled(image) if image is not None and image.text is not None else None
        entrypoint, command = self._words(service.get("entrypoint")), self._words(service.get("command"))
        mine: list[Diagnostic] = []
        env = {**self._env_files(service.get("env_file"), mine), **self._environment(service.get("environment"))}
        launch = in_image(self.source, word, entrypoint, command, env, name)
        if launch is None:
            if word is not None and entrypoint and _IMAGE_OF_VLLM.search(word.text):
                started = " ".join(w.text for w in entrypoint)[:60]
                what = f"service `{name}` has an image of vLLM and starts `{started}`, which is not read here"
                self._problem(
                    "CMD003", what, "Nothing in it can be judged.", "Give the script that it runs with --file.", entrypoint[0].span
                )
            return
        mounts = [mount for item in _elements(service.get("volumes")) if (mount := self._mount(item)) is not None]
        # Its GPUs may come from another file, as many projects have it.
        box = Container(self._shared(service), has_gpus=True)
        self.launches.append(dataclasses.replace(launch, gpus=_gpus(service), mounts=tuple(mounts), container=box))
        self.problems += mine
        if service.get("extends") is not None:
            what = f"what service `{name}` extends is not read"
            self._problem(
                "CMD005", what, "Options that come from there are not judged.", "Give what `docker compose config` prints.", key.span
            )
        for variable, (said, span) in self.required.items():
            what = f"`{variable}` must be set, or Compose refuses the file" + (f": {said}" if said else "")
            self._problem(
                "CMD005", what, "What depends on it is not judged.", f"Write it into {self.folder.as_posix()}/.env to have it judged.", span
            )

    def _problem(self, code: str, what: str, why: str, fix: str, span: Span) -> None:
        self.problems.append(self.source.finding(code, Severity.WARNING, what, why, fix, span))

    def _filled(self, tree: Tree) -> Word:
        found = filled(tree.piece(), tree.span, self.values)
        for name, said in found.required.items():
            self.required.setdefault(name, (said, tree.span))
        return found.word

    def _words(self, tree: Tree | None) -> list[Word]:
        """A command as a list, or as text that is cut as a shell cuts it."""
        if tree is None:
            return []
        if tree.is_list:
            return [self._filled(item) for item in tree.elements() if item.text is not None]
        if tree.text is None:
            return []
        word = self._filled(tree)
        # Compose fills variables in before it cuts words, so a dollar that is left means itself to the cutting, and to a shell inside.
        shell = Shell(self.source, Piece(word.text.replace("$", "\x00"), word.piece.offsets))
        words = [_with_dollars(inner, word.unknown) for command in shell.commands() for inner in command]
        return words if not shell.problems else []

    def _environment(self, tree: Tree | None) -> dict[str, Word]:
        """`environment` as a mapping or as a list of NAME=value; a name alone is passed through from `.env` or wherever Compose runs."""
        env: dict[str, Word] = {}
        if tree is None:
            return env
        for name, key, value in tree.items():
            env[name] = self._filled(value) if value.text is not None else self._passed(name, key)
        for item in tree.elements():
            word = self._filled(item)
            name, equals, _ = word.text.partition("=")
            env[name] = word.cut(len(name) + 1) if equals else self._passed(name, item)
        return env

    def _passed(self, name: str, tree: Tree) -> Word:
        word = Word(tree.piece(), tree.span, (name,))
        return word if name not in self.values else Word(Piece(self.values[name], (tree.span.start,) * len(self.values[name])), tree.span)

    def _env_files(self, tree: Tree | None, problems: list[Diagnostic]) -> dict[str, Word]:
        """Variables of `env_file`: a name, a list of names, or of mappings with `path` and `required`."""
        env: dict[str, Word] = {}
        for item in [] if tree is None else tree.elements() or [tree]:
            path = item.get("path") if item.is_mapping else item
            if path is None or path.text is None:
                continue
            name = self._filled(path)
            text, problem = loaded(self.folder / name.text)
            if problem is None:
                env |= env_file_values(text.text, {**self.values, **{n: w.text for n, w in env.items() if not w.unknown}}, path.span)
                continue
            required = item.get("required") if item.is_mapping else None
            if required is None or required.text != "false":
                fix = "Put it where the Compose file looks for it, to have it judged."
                problems.append(
                    self.source.finding(
                        "CMD005",
                        Severity.WARNING,
                        f"`{name.text}` is not read: {problem.what}",
                        "Variables that it sets are not judged.",
                        fix,
                        path.span,
                    )
                )
        return env

    def _shared(self, service: Tree) -> int | None:
        """Bytes of /dev/shm; None where it is the host's, a mount of its own, or a size that hangs on a variable."""
        ipc, size = service.get("ipc"), service.get("shm_size")
        items = [item for key in ("volumes", "tmpfs") for item in _places(service.get(key))]
        own = any("/dev/shm" in (part.text or "") for item in items for part in (item, *_values(item)))
        if own or (ipc is not None and ipc.text != "private"):
            return None
        return DEFAULT_SHARED if size is None else size_of(self._filled(size).text) if size.text is not None else None

    def _mount(self, item: Tree) -> Mount | None:
        """A mount of a file or a folder beside the Compose file, short or long; None for a named volume."""
        if item.is_mapping:
            kind, origin, target = (item.get(key) for key in ("type", "source", "target"))
            if kind is None or kind.text != "bind" or origin is None or target is None or target.text is None:
                return None
            return Mount(self._filled(target).text, self._filled(origin).text)
        return mount_of(self._filled(item).text)


def _elements(tree: Tree | None) -> list[Tree]:
    return tree.elements() if tree is not None else []


def _places(tree: Tree | None) -> list[Tree]:
    """The items of a list, or the one thing that stands in its place."""
    return [] if tree is None else tree.elements() or [tree]


def _values(tree: Tree) -> list[Tree]:
    return [value for _, _, value in tree.items()] if tree.is_mapping else []


def _with_dollars(word: Word, unknown: tuple[str, ...]) -> Word:
    text = word.text.replace("\x00", "$")
    return Word(Piece(text, word.piece.offsets), word.span, tuple(name for name in unknown if f"${{{name}}}" in text))


def _gpus(service: Tree) -> int | None:
    """The GPUs that the service reserves, where it says a number."""
    devices = [*_elements(service.get("gpus")), *_elements(service.get("deploy", "resources", "reservations", "devices"))]
    for device in devices:
        count, ids = device.get("count"), device.get("device_ids")
        if count is not None and (count.text or "").isdigit():
            return int(count.text or 0)
        if ids is not None and ids.is_list:
            return len(ids.elements())
    return None
