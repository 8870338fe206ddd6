"""Running pods as they describe themselves: what is in force, whether it serves, how busy it is. Asked through the public endpoint.

The bridge hands the supervisor's status on to holders of the endpoint's key (`GET /pod/status`); nothing can be changed that way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import httpx
from pod.contract import Manifest, ManifestError

from compiler.deploy.answers import mapping, number, rows, text, whole
from compiler.deploy.http_api import USER_AGENT
from compiler.diagnostics import brief, printable
from compiler.secrets import masked

# The supervisor answers from memory; what takes longer is a network or a proxy that has nobody behind it.
ASK_S = 10.0
# A status holds twenty lines of the journal and some figures; a manifest some kilobytes.
MAX_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What a pod says of itself. `sequence` is the publication in force, 0 for the manifest of its image; `heard` the last one it knows of.

    `refusals` are time and words of its journal's lines about publications that it did not take, oldest first. `restart_s` is how long its last start kept clients waiting, in seconds.
    """

    state: str
    detail: str
    engine: str
    manifest: str
    sequence: int
    heard: int
    pending: bool
    changing: bool
    busy: int
    quarantined: Mapping[str, str]
    good: str | None
    restart_s: float | None
    notice: str
    refusals: tuple[tuple[str, str], ...]
    runtime: str | None
    levers: tuple[str, ...]
    follows: str


@dataclasses.dataclass(frozen=True, slots=True)
class Unseen:
    """A pod that did not tell, and why."""

    reason: str


class PodClient:
    """Asks one pod. What stands in the way is an `Unseen`, never an exception, and no text holds the key."""

    def __init__(self, url: str, key: str | None, *, transport: httpx.BaseTransport | None = None) -> None:
        self.url, self._key = url, key
        headers = {"User-Agent": USER_AGENT, **({"Authorization": f"Bearer {key}"} if key else {})}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(ASK_S), transport=transport)

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def report(self) -> Report | Unseen:
        """What it says of itself."""
        found = self._asked("/pod/status")
        if isinstance(found, Unseen):
            return found
        return report_of(found) if text(found.get("state")) else Unseen("something else answers there: its status has no state")

    def manifest(self) -> Manifest | Unseen:
        """The manifest in force, as it was published."""
        found = self._asked("/pod/manifest")
        if isinstance(found, Unseen):
            return found
        try:
            return Manifest.from_json(dict(found))
        except ManifestError as error:
            return Unseen(f"its manifest is of another podwright: {error}")

    def proofs(self, salt: str) -> Mapping[str, Any] | Unseen:
        """By variable, the salted hash of each secret that the pod has."""
        return self._asked(f"/pod/proof?salt={salt}")

    def _asked(self, path: str) -> Mapping[str, Any] | Unseen:
        try:
            with self._http.stream("GET", path) as response:
                raw = b""
                for piece in response.iter_bytes():
                    raw += piece
                    if len(raw) > MAX_BYTES:
                        return Unseen("its answer is larger than any status")
        except httpx.TimeoutException:
            return Unseen(f"no answer within {ASK_S:g} s")
        except httpx.HTTPError as error:
            return Unseen(self._cleaned(f"it cannot be reached: {error or type(error).__name__}"))
        return self._read(response.status_code, raw)

    def _read(self, status: int, raw: bytes) -> Mapping[str, Any] | Unseen:
        try:
            body = mapping(json.loads(raw))
        except (ValueError, RecursionError):
            body = {}
        if status == 200 and body:
            return body
        said = text(mapping(body.get("error")).get("message")) or text(body.get("error")) or ""
        if status in (401, 403):
            return Unseen(
                "it refuses the key: another one is set here than in the pod" if self._key else "it asks for a key, and none is set here"
            )
        if status == 404:
            return Unseen("it cannot tell: its runtime is older than this podwright, or another program answers")
        return Unseen(self._cleaned(f"it answers {status}{f': {said}' if said else ''}"))

    def _cleaned(self, words: str) -> str:
        return printable(brief(masked(words.replace(self._key, "[hidden: the key]") if self._key else words), 300))


def report_of(status: Mapping[str, Any]) -> Report:
    """A status document, read without trusting it."""
    engine, publication, load = mapping(status.get("engine")), mapping(status.get("publication")), mapping(status.get("load"))
    last = [(_said(row.get("at")), _said(row.get("message"))) for row in rows(status.get("last")) if row.get("kind") == "refused"]
    return Report(
        state=_said(status.get("state")),
        detail=_said(status.get("detail")),
        engine=_said(engine.get("name")),
        manifest=text(engine.get("manifest")) or "",
        sequence=whole(engine.get("sequence")) or 0,
        heard=whole(publication.get("sequence")) or 0,
        pending=publication.get("pending") is not None,
        changing=status.get("change") is not None,
        busy=(whole(load.get("running")) or 0) + (whole(load.get("waiting")) or 0),
        quarantined={sha: _said(row.get("reason")) for row in rows(status.get("quarantined")) if (sha := text(row.get("manifest")))},
        good=text(mapping(status.get("good")).get("manifest")),
        restart_s=number(status.get("restart_s")),
        notice=_said(status.get("notice")),
        refusals=tuple(last),
        runtime=text(status.get("runtime")),
        levers=tuple(f"{name}={_said(row.get('value'))}" for row in rows(status.get("levers")) if (name := text(row.get("name")))),
        follows=_said(status.get("follow")),
    )


def _said(value: object) -> str:
    return printable(brief(masked(text(value) or ""), 400))
