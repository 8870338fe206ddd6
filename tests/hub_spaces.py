"""Docker Spaces for the Hub of `tests.hub_server`: what `huggingface_hub` asks of one while it is built. `SpaceStub(hub)` adds the routes.

A build is a script: pieces of its log, and the stage in which it ends. It begins with the Space's next commit, or with a restart after a pause.
"""

from __future__ import annotations

import dataclasses
import json
import re

from tests.hub_api import Call, Reply, json_reply
from tests.hub_repos import Store
from tests.hub_server import Hub

_SPACE = r"/api/spaces/(?P<name>[\w.-]+/[\w.-]+)"


@dataclasses.dataclass
class Build:
    """One build. `streams` are the logs that consecutive followers get; the last one ends it. `queued` looks pass before it begins."""

    streams: list[list[str]]
    ends: str = "RUNNING"
    queued: int = 0


class SpaceStub:
    """Stages and logs of every Space of a Hub. `asked` are the actions that came."""

    def __init__(self, hub: Hub, build: Build, *, stage: str = "NO_APP_FILE") -> None:
        self.hub, self.build, self.stage = hub, build, stage
        self.asked: list[str] = []
        self._commits = 0
        hub.more += [
            ("POST", r"/api/validate-yaml", self._checked),
            ("GET", rf"{_SPACE}/runtime", self._runtime), ("GET", rf"{_SPACE}/logs/build", self._log),
            ("POST", rf"{_SPACE}/(?P<action>pause|restart)", self._act),
        ]  # fmt: skip

    def _runtime(self, store: Store, call: Call, match: re.Match[str]) -> Reply:
        commits = len(store.reachable(match["name"], "space", call.token, "write").commits)
        if commits > self._commits and self.stage != "PAUSED":
            if self.build.queued:
                self.build.queued -= 1
            else:
                self._commits, self.stage = commits, "BUILDING"
        return json_reply(self._told())

    def _checked(self, store: Store, call: Call, match: re.Match[str]) -> Reply:
        """The card of a Space must say how it is built."""
        wrong = [] if "sdk:" in call.json()["content"].split("---")[1] else [{"message": '"sdk" is required'}]
        return json_reply({"errors": wrong, "warnings": []}, 400 if wrong else 200)

    def _told(self) -> dict[str, object]:
        return {"stage": self.stage, "hardware": {"current": None, "requested": "cpu-basic"}, "storage": None, "gcTimeout": 172800}

    def _log(self, store: Store, call: Call, match: re.Match[str]) -> Reply:
        lines = self.build.streams.pop(0) if self.build.streams else []
        if not self.build.streams:
            self.stage = self.build.ends
        events = [f"data: {json.dumps({'data': line, 'timestamp': '2026-11-30T02:00:00.000Z'})}\n\n" for line in lines]
        return Reply(200, "".join(["data:\n\n", *events]).encode(), {"Content-Type": "text/event-stream"})

    def _act(self, store: Store, call: Call, match: re.Match[str]) -> Reply:
        self.asked.append(match["action"])
        self.stage = "PAUSED" if match["action"] == "pause" else "RUNNING"
        return json_reply(self._told())
