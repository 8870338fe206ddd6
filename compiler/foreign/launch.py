"""From words to what starts an engine: its options, its environment and its image, before a release's parser gives them meaning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from compiler.diagnostics import Diagnostic
from compiler.foreign.files import Mount
from compiler.foreign.outside import Container, docker_container
from compiler.foreign.shell import Scope, Shell
from compiler.foreign.source import Piece, Source, Span, Word, texts, word_of

API_SERVER = "vllm.entrypoints.openai.api_server"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.DOTALL)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})
# Options of `docker run` that stand alone; every other one takes the next word unless it is written with `=`.
_ALONE = frozenset({
    "--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck", "--oom-kill-disable", "--privileged",
    "--publish-all", "--quiet", "--read-only", "--rm", "--sig-proxy", "--tty", "--use-api-socket", "--replace", "--no-hosts", "--tls-verify",
})  # fmt: skip
_ALONE_LETTERS = frozenset("dithPq")
_OWN_OPTION = re.compile(r"--(gpu[-_]memory[-_]utilization|max[-_]model[-_]len)(=|$)")
MAX_NESTING = 4  # Of a shell within a container within a shell.


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One start of an engine as it was written.

    `words` are the engine's own arguments, the model among them; `name` is the service or container, empty for a plain
    command; `span` is where to point when nothing better is known; `gpus` are those that it asks for, where it says so. `mounts` and
    `container` are None outside of a container. Of a read option file, `configured` are the places of its keys, and `silent` its keys
    that are false. `env_files` are those of `docker run`, not read yet.
    """

    source: Source
    words: tuple[Word, ...]
    env: Mapping[str, Word]
    image: Word | None
    name: str
    span: Span
    gpus: int | None = None
    mounts: tuple[Mount, ...] | None = None
    configured: frozenset[Span] = frozenset()
    silent: tuple[Word, ...] = ()
    container: Container | None = None
    env_files: tuple[Word, ...] = ()


def launches_in(source: Source, piece: Piece, scope: Scope | None = None) -> tuple[list[Launch], list[Diagnostic]]:
    """All starts of an engine in shell text, and what is wrong with the text as such."""
    shell = Shell(source, piece, scope)
    commands = shell.commands()
    found = [launch for command in commands if (launch := launch_of(source, command, exported=shell.scope.exported)) is not None]
    return found, shell.problems


def launch_of(
    source: Source,
    command: Sequence[Word],
    *,
    exported: Mapping[str, Word] | None = None,
    image: Word | None = None,
    name: str = "",
    depth: int = 0,
) -> Launch | None:
    """The start of an engine that a command is or wraps; None when it is something else."""
    words = list(command)
    if not words or depth > MAX_NESTING:
        return None
    tool = next((i for i, w in enumerate(words[:8]) if _program(w) in _CONTAINER_TOOLS), None)
    if tool is not None and "run" in texts(words[tool + 1 : tool + 3]):
        return _container(source, words[tool + 1 + texts(words[tool + 1 :]).index("run") :], exported or {}, name, depth)
    env = {**(exported or {}), **_prefixed(words)}
    nested = _script(words)
    if nested is not None:
        shell = Shell(source, nested.piece, Scope({key: [word] for key, word in env.items() if not word.unknown}))
        inner = [
            launch_of(source, c, exported={**env, **shell.scope.exported}, image=image, name=name, depth=depth + 1)
            for c in shell.commands()
        ]
        return next((found for found in inner if found is not None), None)
    start = engine_words(words)
    if start is None:
        return None
    return Launch(source, tuple(words[start:]), env, image, name, words[max(0, start - 1)].span)


def engine_words(words: Sequence[Word]) -> int | None:
    """Where the engine's own arguments begin: after `vllm serve`, or after `-m` and the module of its server."""
    for i, word in enumerate(words):
        if _program(word) == "vllm" and i + 1 < len(words) and words[i + 1].text == "serve":
            return i + 2
        if word.text == API_SERVER and i and words[i - 1].text == "-m":
            return i + 1
    return None


def in_image(
    source: Source,
    image: Word | None,
    entrypoint: Sequence[Word],
    arguments: Sequence[Word],
    env: Mapping[str, Word],
    name: str,
    depth: int = 0,
) -> Launch | None:
    """The start of an engine in a container. An image of vLLM without an entrypoint of its own runs `vllm serve`.

    An image with another name, or whose name hangs on a variable, is one where its arguments are options that only vLLM has.
    """
    words = [*entrypoint, *arguments]
    found = launch_of(source, words, exported=env, image=image, name=name, depth=depth + 1)
    is_ours = image is not None and ("vllm" in image.text.lower() or any(_OWN_OPTION.match(word.text) for word in arguments))
    if found is not None or entrypoint or image is None or not is_ours:
        return found
    serves = [word_of(word, image.span) for word in ("vllm", "serve")]
    return launch_of(source, [*serves, *arguments], exported=env, image=image, name=name, depth=depth + 1)


def _program(word: Word) -> str:
    return PurePosixPath(word.text).name


def _prefixed(words: Iterable[Word]) -> dict[str, Word]:
    """Variables set before the program: `A=1 vllm serve`, `env A=1 vllm serve`."""
    env: dict[str, Word] = {}
    for word in words:
        match = _ASSIGNMENT.match(word.text)
        if match:
            env[match[1]] = word.cut(match.end())
        elif _program(word) in ("vllm", *_SHELLS) or _program(word).startswith("python"):
            break
    return env


def _script(words: Sequence[Word]) -> Word | None:
    """The text that a shell is told to run: the word after `-c`."""
    for i, word in enumerate(words):
        if _program(word) in _SHELLS:
            rest = words[i + 1 :]
            flag = next((n for n, w in enumerate(rest) if re.fullmatch(r"-[a-z]*c", w.text)), None)
            return rest[flag + 1] if flag is not None and flag + 1 < len(rest) else None
    return None


def _container(source: Source, words: Sequence[Word], exported: Mapping[str, Word], name: str, depth: int) -> Launch | None:
    """The engine of `docker run [options] image [arguments]`; `words` begin at `run`."""
    env: dict[str, Word] = {}
    given: dict[str, list[Word]] = {}
    i = 1
    while i < len(words) and words[i].text.startswith("-"):
        option, value, taken = _option(words, i)
        i += taken
        given.setdefault(option, []).extend([value] if value is not None else [])
        match = _ASSIGNMENT.match(value.text) if value is not None else None
        if option in ("-e", "--env") and value is not None:
            passed = match[1] if match else value.text
            env[passed] = value.cut(match.end()) if match else exported.get(passed) or dataclasses.replace(value, unknown=(passed,))
    if i >= len(words):
        return None
    names = given.get("--name", [])
    name = name or (names[0].text if names else "")
    found = in_image(source, words[i], given.get("--entrypoint", [])[-1:], words[i + 1 :], env, name, depth)
    counts = [int(word.text) for word in given.get("--gpus", []) if word.text.isdigit()]
    mounts = [mount for option in ("-v", "--volume") for word in given.get(option, []) if (mount := mount_of(word.text)) is not None]
    box = docker_container(given, env)
    if found is None:
        return None
    files = tuple(given.get("--env-file", []))
    return dataclasses.replace(found, gpus=counts[-1] if counts else None, mounts=tuple(mounts), container=box, env_files=files)


def mount_of(text: str) -> Mount | None:
    """A mount as `HOST:TARGET[:options]`; None for a named volume, which holds what nobody gave."""
    host, colon, rest = text.partition(":")
    host = re.sub(r"^(\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`)", ".", host)
    is_path = host.startswith(("/", ".", "~"))
    return Mount(rest.partition(":")[0], host) if colon and is_path and rest.startswith("/") else None


def _option(words: Sequence[Word], i: int) -> tuple[str, Word | None, int]:
    """Name and value of an option of `docker run`, and the words that it takes."""
    text = words[i].text
    if text.startswith("--"):
        option, equals, _ = text.partition("=")
        if equals:
            return option, words[i].cut(len(option) + 1), 1
        return (option, None, 1) if option in _ALONE else (option, words[i + 1] if i + 1 < len(words) else None, 2)
    letters = text[1:]
    for n, letter in enumerate(letters):
        if letter not in _ALONE_LETTERS:
            rest = words[i].cut(n + 2)
            if rest.text:
                return f"-{letter}", rest.cut(1) if rest.text.startswith("=") else rest, 1
            return f"-{letter}", words[i + 1] if i + 1 < len(words) else None, 2
    return text, None, 1
