"""`podwright image --push`: an image of this machine's engine to any registry, and its digest into the profile's lock.

Credentials are the engine's own (`docker login`); podwright neither asks for one nor keeps one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compiler.deploy.docker_engine import engine
from compiler.deploy.failures import BadReference, DeployError
from compiler.deploy.image import SILENCE_TIMEOUT_S
from compiler.deploy.lock import LOCAL_IMAGES, Change, LockResult, lock_text, write_lock
from compiler.deploy.registry import parse_reference
from compiler.diagnostics import brief, printable
from compiler.schema.specset import SpecSet
from compiler.secrets import masked

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CURES = (
    (r"denied|unauthorized|no basic auth|authentication required|forbidden|insufficient_scope", "Log in with `docker login` and an account that may write there."),
    (r"server gave HTTP response to HTTPS client|certificate", "The engine takes plain http and unknown certificates from registries on this machine only; see its `insecure-registries`."),
    (r"no such host|connection refused|i/o timeout|network is unreachable", "Look at the registry's name and at the network."),
    (r"toomanyrequests|rate limit|429", "The registry limits pushes: wait, then run the same command; layers that are there are not sent again."),
    (r"no space|quota|too large|413", "The registry has no room for it: free some, or take another one."),
)  # fmt: skip


class ImageNotPushed(DeployError):
    """The registry did not take the image."""

    code = "DPL095"


@dataclasses.dataclass(frozen=True, slots=True)
class Pushed:
    """An image as a registry has it: the name that a profile uses for it, and the digest of its manifest."""

    name: str
    digest: str

    @property
    def reference(self) -> str:
        """The image by its digest."""
        return f"{self.name}@{self.digest}"


def push_name(target: str, own_name: str) -> str:
    """The full name to push under: `target` with the tag of the profile's own name where it has none. Raises BadReference."""
    asked = parse_reference(target)
    if asked.digest or target.startswith(LOCAL_IMAGES):
        raise BadReference(f"{target} is no name to push under", "A registry's name and a repository are needed, and the digest comes from the push.", "Write registry/repository, for instance ghcr.io/me/pod.")
    last = target.rpartition("/")[2]
    tag = "" if ":" in last else f":{own_name.rpartition(':')[2] if ':' in own_name.rpartition('/')[2] else 'latest'}"
    return f"{target}{tag}"


def push_image(tag: str, name: str, on_event: Callable[[str], None] = lambda text: None) -> Pushed:
    """Send the engine's image `tag` to a registry as `name`. Raises DockerUnavailable or ImageNotPushed."""
    repository, _, label = name.rpartition(":")
    with engine() as client:
        from docker.errors import DockerException  # type: ignore[import-untyped,unused-ignore]
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        client.timeout = SILENCE_TIMEOUT_S  # A layer of many gigabytes says nothing while it is compressed.
        try:
            if tag != name:
                client.tag(tag, repository, label)
            digest = _digest(client.push(repository, label, stream=True, decode=True), name, on_event)
        except (DockerException, RequestException, HTTPError, OSError, ValueError) as error:
            raise _refused(name, str(getattr(error, "explanation", None) or error)) from error
    return Pushed(name, digest)


def _digest(stream: Any, name: str, on_event: Callable[[str], None]) -> str:
    """Read the engine's messages; the digest that the registry gave."""
    found, states = "", dict[str, str]()
    for event in stream:
        if not isinstance(event, Mapping):
            continue
        if event.get("error") or event.get("errorDetail"):
            raise _refused(name, str(event.get("error") or event["errorDetail"]))
        told = event.get("aux")
        if isinstance(told, Mapping) and _DIGEST.fullmatch(str(told.get("Digest") or "")):
            found = str(told["Digest"])
        layer, status = str(event.get("id") or ""), str(event.get("status") or "")
        if status and states.get(layer) != status:
            states[layer] = status
            on_event(f"push {layer}: {status}" if layer else status)
    if not found:
        raise _refused(name, "the engine ended the push without a digest")
    return found


def locked_image(specs: SpecSet, pushed: Pushed, folder: Path, today: str) -> bool:
    """Keep the digest in the profile's lock, where the profile names that image. False where it does not. Raises LockNotWritten."""
    if specs.profile.container.name != pushed.name:
        return False
    before = specs.lock.images.get(pushed.name)
    lock = specs.lock.model_copy(update={"images": {**specs.lock.images, pushed.name: pushed.digest}, **({"resolved": today} if before != pushed.digest else {})})
    write_lock(folder / "locks" / f"{specs.name}.yaml", lock_text(LockResult(specs.name, lock, (Change(pushed.name, before, pushed.digest),), ())))
    return True


def _refused(name: str, said: str) -> ImageNotPushed:
    words = printable(brief(masked(said), 400))
    cure = next((fix for pattern, fix in _CURES if re.search(pattern, said, re.IGNORECASE)), "Look at the engine's log, then run the same command; layers that are there are not sent again.")
    return ImageNotPushed(f"{name} was not pushed: {words}", "A pod can pull only what a registry has.", cure)
