"""`podwright image`: build a bundle's Dockerfile in a Docker engine, through the engine's own API.

The engine's classic builder is used, because that is what its API offers to programs; the same Dockerfile builds under
BuildKit by hand (docs/lock.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from compiler.deploy.docker_engine import engine
from compiler.deploy.failures import ImageNotBuilt, StepFailed
from compiler.plan import Plan

# A step may say nothing for a long time: committing or unpacking a layer of many gigabytes prints no line.
SILENCE_TIMEOUT_S = 3600
# One layer of 18 GB took 9 to 10 minutes to pull, because a layer is fetched and unpacked as one stream.
LARGE_LAYER_BYTES = 10_000_000_000
TAIL_LINES = 20

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)", re.DOTALL)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# Lines of the builder itself, which say nothing about why a step failed.
_BOOKKEEPING = re.compile(r"\s*---> |Removing intermediate container |Successfully (built|tagged) ")
_EXIT_CODE = re.compile(r"returned a non-zero code: (\d+)")
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"non-zero code: 137|out of memory|Cannot allocate memory",
        "The step was killed: give the engine's machine more memory, or stop what else runs there.",
    ),
    (r"no space left on device", "Free disk space where the engine keeps its images; `docker system df` shows what takes it."),
    (
        r"Temporary failure (in name resolution|resolving)|Could not resolve|Name or service not known"
        r"|Network is unreachable|Failed to establish a new connection",
        "The build's containers have no network: try `--network host`, or set the engine's DNS and proxy.",
    ),
    (
        r"certificate verify failed|CERTIFICATE_VERIFY_FAILED|self.signed certificate|UnknownIssuer",
        "Something between the build and the internet has its own certificate: use a base image that trusts it.",
    ),
    (
        r"exec format error|does not match the specified platform|no matching manifest",
        "The base image or the engine's machine is of another platform than the build asks for.",
    ),
    (
        r"pull access denied|manifest unknown|manifest for .* not found|repository does not exist|No such image",
        "The base image cannot be pulled: look at its name in the engine spec; a private one needs `docker login`.",
    ),
    (r"toomanyrequests|rate limit", "The registry limits pulls: wait, or `docker login` for a higher limit."),
    (
        r"COPY failed|ADD failed|forbidden path outside the build context|file not found in build context",
        "The bundle lacks a file: run `podwright build` again and do not edit the bundle.",
    ),
)


@dataclasses.dataclass(frozen=True, slots=True)
class BuildEvent:
    """One thing that happened in a build: a step began, it printed a line, a base layer arrived, or something to know.

    `step` of `steps` counts from 1; both are None before the first step.
    """

    kind: Literal["step", "output", "download", "warning"]
    text: str
    step: int | None = None
    steps: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """One entry of an image's history: the instruction that made it, and its size in bytes (0 where it changed no file)."""

    created_by: str
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltImage:
    """The image as the engine holds it. `layers` go from the base to the last instruction; `seconds` is the build's wall time."""

    id: str
    tag: str
    size_bytes: int
    seconds: float
    layers: tuple[Layer, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """A mapping of all fields."""
        return dataclasses.asdict(self)


def build_image(
    plan: Plan, bundle_folder: Path, *, tag: str | None = None, on_event: Callable[[BuildEvent], None] = lambda event: None,
    platform: str = "linux/amd64", network: str | None = None, base_override: str | None = None,
) -> BuiltImage:  # fmt: skip
    """Build the Dockerfile in `bundle_folder` and tag it `tag`, by default the plan's name for it.

    `network` is the network of the build's containers (`host`, `none`, ...). `base_override` takes the place of the plan's
    base image: a mirror of it, or a stand-in. Raises DockerUnavailable, ImageNotBuilt or StepFailed; an interrupted build
    leaves no tag behind.
    """
    dockerfile = _dockerfile(plan, bundle_folder)
    name = tag or plan.image.name
    started = time.monotonic()
    with engine() as client, _overridden(dockerfile, plan.image.base_reference, base_override) as path:
        watch = _Watch(on_event)
        for line in _stream(client, bundle_folder, path, name, platform, network):
            watch.feed(line)
        image_id = watch.image_id()
        seconds = time.monotonic() - started
        layers = tuple(
            Layer(_instruction(row.get("CreatedBy") or ""), int(row.get("Size") or 0)) for row in reversed(client.history(image_id))
        )
        size = int(client.inspect_image(image_id)["Size"])
    warnings = tuple(_large(layer) for layer in layers if layer.size_bytes > LARGE_LAYER_BYTES)
    for warning in warnings:
        on_event(BuildEvent("warning", warning))
    return BuiltImage(image_id, name, size, seconds, layers, warnings)


class _Watch:
    """Reads a build's stream: steps, output, the image's id, and why a step failed."""

    def __init__(self, on_event: Callable[[BuildEvent], None]) -> None:
        self._on_event = on_event
        self._step: int | None = None
        self._steps: int | None = None
        self._instruction = ""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._partial = ""
        self._downloads: dict[str, str] = {}
        self._id: str | None = None

    def feed(self, message: Mapping[str, Any]) -> None:
        """One message of the engine. Raises StepFailed for an error."""
        if "error" in message or "errorDetail" in message:
            self._flush()
            raise self._failure(message)
        if isinstance(message.get("aux"), Mapping) and message["aux"].get("ID"):
            self._id = str(message["aux"]["ID"])
        if message.get("stream"):
            self._text(str(message["stream"]))
        elif message.get("status"):
            self._download(str(message.get("id") or ""), str(message["status"]))

    def image_id(self) -> str:
        """The finished image. Raises StepFailed when the stream ended without one."""
        self._flush()
        if self._id is None:
            raise self._failure({"error": "the engine ended the build without an image"})
        return self._id

    def _text(self, text: str) -> None:
        begin = _STEP.fullmatch(text.strip())
        if begin:
            self._flush()
            self._step, self._steps, self._instruction = int(begin[1]), int(begin[2]), " ".join(begin[3].split())
            self._tail.clear()
            self._emit("step", self._instruction)
            return
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        """A whole line; of a progress bar that rewrites itself only the last state."""
        shown = _CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
        if shown:
            if not _BOOKKEEPING.match(shown):
                self._tail.append(shown)
            self._emit("output", shown)

    def _flush(self) -> None:
        if self._partial:
            self._line(self._partial)
        self._partial = ""

    def _download(self, layer: str, status: str) -> None:
        """Pulls repeat a status for every chunk; only a change is an event."""
        if self._downloads.get(layer) != status:
            self._downloads[layer] = status
            self._emit("download", f"{layer}: {status}" if layer else status)

    def _emit(self, kind: Literal["step", "output", "download"], text: str) -> None:
        self._on_event(BuildEvent(kind, text, self._step, self._steps))

    def _failure(self, message: Mapping[str, Any]) -> StepFailed:
        detail = message.get("errorDetail")
        text = str((detail.get("message") if isinstance(detail, Mapping) else None) or message.get("error") or "no reason given")
        tail = tuple(self._tail)
        where = (
            f"step {self._step} of {self._steps} failed: {self._instruction}" if self._step else "the build failed before its first step"
        )
        code = _EXIT_CODE.search(text)
        reason = f"It ended with exit code {code[1]}." if code else _CONTROL.sub("", text)
        said = ["It printed, last:", *(f"  {line}" for line in tail)] if tail else []
        return StepFailed(where, "\n".join([reason, *said]), _hint("\n".join((text, *tail))), step=self._step, steps=self._steps, tail=tail)


def _dockerfile(plan: Plan, folder: Path) -> Path:
    if not plan.image.prebaked:
        raise ImageNotBuilt(
            f"{plan.profile} bakes no image",
            f"Its pods start from {plan.image.reference} and install at boot.",
            "Set `container.prebaked: true` to bake one.",
        )
    path = folder / "Dockerfile"
    if not path.is_file():
        raise ImageNotBuilt(
            f"{path} does not exist", "The bundle is the build's context.", f"Run `make build PROFILE={plan.profile}` first."
        )
    return path


@contextlib.contextmanager
def _overridden(dockerfile: Path, base: str, replacement: str | None) -> Iterator[Path]:
    """The Dockerfile to send: the bundle's own, or a copy outside the bundle that starts from another base."""
    if replacement is None:
        yield dockerfile
        return
    text, count = re.subn(
        rf"^FROM {re.escape(base)}(?=\s|$)", lambda _: f"FROM {replacement}", dockerfile.read_text("utf-8"), flags=re.MULTILINE
    )
    if not count:
        raise ImageNotBuilt(
            f"{dockerfile} does not start from {base}",
            "So there is no base image to replace.",
            "Build the bundle again; its Dockerfile and its plan belong together.",
        )
    with tempfile.TemporaryDirectory(prefix="podwright-") as folder:
        copy = Path(folder) / "Dockerfile"
        copy.write_text(text, "utf-8")
        yield copy


def _stream(client: Any, folder: Path, dockerfile: Path, tag: str, platform: str, network: str | None) -> Iterator[Mapping[str, Any]]:
    """The engine's messages of one build, an exception of the way to it turned into a failure that says so."""
    from docker.errors import APIError, DockerException  # type: ignore[import-untyped,unused-ignore]
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError  # The SDK reads a stream from below requests.

    inside = "Dockerfile" if dockerfile.parent == folder else str(dockerfile.resolve())
    try:
        yield from client.build(
            path=str(folder),
            dockerfile=inside,
            tag=tag,
            rm=True,
            forcerm=True,
            decode=True,
            platform=platform,
            network_mode=network,
            timeout=SILENCE_TIMEOUT_S,
        )
    except APIError as error:
        said = str(error.explanation or error)
        raise ImageNotBuilt("the Docker engine refuses the build", said, _hint(said)) from error
    except (DockerException, RequestException, HTTPError, OSError, ValueError) as error:
        raise ImageNotBuilt(
            "the build broke off",
            f"The Docker engine no longer answers, or not in its protocol: {error}",
            "Look at the engine's log; finished steps are kept, so the next build goes on from there.",
        ) from error


def _hint(text: str) -> str:
    """What to do about an engine's words."""
    return next(
        (hint for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE)),
        "Read the last lines above; the step can be tried by hand in a container of the layer before it.",
    )


def _instruction(created_by: str) -> str:
    """An entry of the history as the Dockerfile has it: without the classic builder's `#(nop)` and shell."""
    text = " ".join(created_by.split())
    shell = re.match(r"/bin/(?:ba)?sh(?: -o pipefail)? -c ", text)
    rest = text[shell.end() :] if shell else text
    if rest.startswith("#(nop) "):
        return rest.removeprefix("#(nop) ").strip()
    return f"RUN {rest}" if shell else text


def _large(layer: Layer) -> str:
    return (
        f"one layer has {layer.size_bytes / 1e9:.1f} GB: {layer.created_by[:80]}. A layer is pulled and unpacked as one stream, "
        "and one of 18 GB took 9 to 10 minutes; split the step that makes it."
    )
