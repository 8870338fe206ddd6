"""A whole runtime on loopback for tests: guardian, supervisor, bridge, and a toy engine with flags."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pod import folders, processes
from pod.contract import Manifest

from tests.unit.pod.manifests import example_manifest, with_launch

RUNTIME = Path(__file__).parents[3] / "images" / "runtime"
TOY = str(Path(__file__).parent / "toy_engine.py")
# Bounds every wait of a test; a step takes a second or two on an idle machine.
PATIENCE_S = 40.0


def free_port() -> int:
    """A port that was free a moment ago, and none of those that the kernel gives to the thousands of connections of the tests' clients."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def toy_manifest(*flags: str, port: int, endpoint: int, base: Manifest | None = None, **watchdog: Any) -> Manifest:
    """A manifest whose engine is the toy."""
    manifest = with_launch(base or example_manifest(), argv=(sys.executable, TOY, "--port", str(port), *flags), port=port, env={}, fetch=(), config_patches=())
    supervisor = dataclasses.replace(
        manifest.supervisor, follow=None, compile_caches={}, secrets=(), watchdog=dataclasses.replace(manifest.supervisor.watchdog, **watchdog),
        warm_up=dataclasses.replace(manifest.supervisor.warm_up, expect="eight"),
    )  # fmt: skip
    return dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, port=endpoint, host="127.0.0.1"), supervisor=supervisor)


class Pod:
    """One running runtime. `status()` asks it, `until` waits for something to be so."""

    def __init__(self, folder: Path, manifest: Manifest, environ: Mapping[str, str] | None = None, python: str = sys.executable) -> None:
        self.python, self.folder, self.manifest, self.status_port = python, folder, manifest, free_port()
        self.file = folder / "given.json"
        self.file.write_text(json.dumps(manifest.to_json()))
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("VL_", "HF_", "RUNPOD_"))}, "PYTHONPATH": str(RUNTIME), "API_KEY": "k3y-for-tests",
            folders.STATE_ENV: str(folder / "state"), folders.STATUS_PORT_ENV: str(self.status_port), "HOME": str(folder), **(environ or {}),
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "run.log"

    def start(self) -> Pod:
        """Start the guardian."""
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen([self.python, "-m", "pod", "--manifest", str(self.file), "run"], env=self.environ, stdout=stream, stderr=stream)
        return self

    def status(self) -> dict[str, Any]:
        """The status document; empty while nobody answers."""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            return dict(self.ask("GET", "/status")[1])
        return {}

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        """One question to the supervisor."""
        return _asked(self.status_port, method, path, body, {})

    def complete(self, timeout_s: float = PATIENCE_S, model: str = "m") -> tuple[int, Any]:
        """One generation through the bridge."""
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
        headers = {"x-api-key": self.environ["API_KEY"], "content-type": "application/json"}
        return _asked(self.manifest.bridge.port, "POST", "/v1/chat/completions", body, headers, timeout_s)

    def until(self, condition: Callable[[dict[str, Any]], Any], what: str = "", seconds: float = PATIENCE_S) -> dict[str, Any]:
        """The first status for which something is so."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.status()
            if found and condition(found):
                return found
            assert time.monotonic() < deadline, f"never {what}: {found.get('state')} {found.get('detail')}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.05)

    def serves(self) -> dict[str, Any]:
        """The first status in which it serves, its bridge included."""
        wants_bridge = self.manifest.bridge.mode != "off"
        return self.until(lambda s: s["state"] == "serving" and (s["bridge_pid"] is not None or not wants_bridge), "serving")

    def supervisor(self) -> int:
        """The supervisor's process id."""
        return next(iter(processes.marked_with({f"supervisor:{self.nonce}"})))

    @property
    def nonce(self) -> str:
        """What marks this runtime's processes."""
        return str(json.loads((self.folder / "state" / "nonce").read_text())["nonce"])

    def leaders(self) -> set[int]:
        """Leaders of the sessions of its children. A real engine's processes write their title over the mark in their environment."""
        rows = folders.read_json(self.folder / "state" / "children.json").get("children", [])
        return {int(row["identity"]["pid"]) for row in rows}

    def left(self) -> set[int]:
        """Living processes of this runtime."""
        if not (self.folder / "state" / "nonce").exists():
            return set()
        return processes.marked_with({f"{role}:{self.nonce}" for role in processes.ROLES})

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Tell it to end, and give its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextlib.contextmanager
def living(folder: Path, manifest: Manifest, environ: Mapping[str, str] | None = None, python: str = sys.executable) -> Iterator[Pod]:
    """A started runtime, of which nothing is left afterwards."""
    pod = Pod(folder, manifest, environ, python).start()
    try:
        yield pod
    finally:
        leaders = pod.leaders()
        if pod.process is not None and pod.process.poll() is None:
            pod.process.kill()
            pod.process.wait(10)
        # A supervisor that still lives replaces a bridge that is killed before it.
        while left := pod.left() | {stat.pid for stat in processes.all_stats() if stat.session in leaders}:
            processes.kill(left)
            time.sleep(0.05)


def _asked(port: int, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float = 5.0) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()
