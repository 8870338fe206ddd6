"""`podwright local` for real: an engine on the CPU, the emitted bootstrap, the runtime and the bridge, until a signal; nothing is left.

The engine's environment is made where it is not in the cache yet, so the first run takes minutes and needs a package index.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.local.children import left_of
from tests.support import ROOT

pytestmark = pytest.mark.real_engine
# Bounds the environment and a start on a machine that others use, too; on an idle one both take two minutes.
UP_S = 900.0
DOWN_S = 120.0


class Local:
    """One `podwright local`, its bundles in a folder of the test's own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.output, self.errors = folder / "out.json", folder / "err.txt"
        command = [sys.executable, "-m", "compiler", "local", "tiny-cpu", "--json", "--out", str(folder / "build"), *words]
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err, start_new_session=True)

    def answer(self) -> dict[str, Any]:
        """The document that says how to connect."""
        deadline = time.monotonic() + UP_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ValueError):
                found: dict[str, Any] = json.loads(self.output.read_text("utf-8"))
                return found
            assert self.process.poll() is None, self.errors.read_text("utf-8")[-4000:]
            time.sleep(0.2)
        raise AssertionError(f"never served: {self.errors.read_text('utf-8')[-4000:]}")

    def end(self, number: signal.Signals) -> int:
        """The exit code after a signal to the command alone."""
        self.process.send_signal(number)
        return self.process.wait(DOWN_S)

    @property
    def state(self) -> Path:
        """The runtime's state folder."""
        return self.folder / "build/local/tiny-cpu/state"

    def left(self) -> set[int]:
        """What is alive of the runtime."""
        return left_of(self.state)


@contextlib.contextmanager
def local(folder: Path, *words: str) -> Iterator[Local]:
    run = Local(folder, *words)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.terminate()
            run.process.wait(DOWN_S)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """One that serves, for the questions; the last test of the module ends it."""
    with local(tmp_path_factory.mktemp("local")) as run:
        run.answer()
        yield run


def post(answer: dict[str, Any], path: str, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
    host, _, port = answer["url"].removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=180)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **({"x-api-key": key} if key else {})})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


MESSAGE = {"model": "tiny", "max_tokens": 6, "messages": [{"role": "user", "content": "hello"}]}


def test_it_says_how_to_connect_and_only_loopback_listens(served: Local) -> None:
    answer = served.answer()
    assert answer["ok"] and answer["models"] == ["tiny", "claude-tiny"] and answer["context_window"] == 32768
    assert (served.folder / "build/local/tiny-cpu/key").read_text("utf-8").strip() == answer["key"]
    assert (served.folder / "build/local/tiny-cpu/key").stat().st_mode & 0o077 == 0
    port = int(answer["url"].rpartition(":")[2])
    own = [f for f in _addresses() if f != "127.0.0.1"]
    for address in own:
        with socket.socket() as sock:
            sock.settimeout(2)
            assert sock.connect_ex((address, port)) != 0, f"{address}:{port} can be reached from outside"


def _addresses() -> list[str]:
    run = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False)
    return [word for word in run.stdout.split() if ":" not in word]


def test_messages_and_chat_are_answered_with_the_key(served: Local) -> None:
    answer = served.answer()
    status, message = post(answer, "/v1/messages", MESSAGE, answer["key"])
    assert status == 200 and message["type"] == "message" and message["usage"]["output_tokens"] == 6, message
    status, chat = post(answer, "/v1/chat/completions", MESSAGE, answer["key"])
    assert status == 200 and chat["usage"]["completion_tokens"] == 6, chat


@pytest.mark.parametrize("key", [None, "another-key"])
def test_nobody_is_served_without_the_key(served: Local, key: str | None) -> None:
    for path in ("/v1/messages", "/v1/chat/completions"):
        assert post(served.answer(), path, MESSAGE, key)[0] == 401


def test_the_runtime_that_runs_is_the_bundles_and_knows_its_manifest(served: Local) -> None:
    manifest = json.loads((served.folder / "build/tiny-cpu/manifest.json").read_text("utf-8"))
    assert json.loads((served.folder / "build/local/tiny-cpu/root/opt/podwright/manifest.json").read_text("utf-8")) == manifest
    log = (served.folder / "build/local/tiny-cpu/pod.log").read_text("utf-8")
    assert "podwright bootstrap" in log and "starting the runtime with manifest" in log
    engine = json.loads((served.state / "engine.json").read_text("utf-8"))
    assert engine["state"] == "serving" and engine["served_names"] == ["tiny", "claude-tiny"]


def test_a_second_one_in_the_same_folder_is_refused_and_the_first_goes_on(served: Local) -> None:
    command = [sys.executable, "-m", "compiler", "local", "tiny-cpu", "--out", str(served.folder / "build")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 4 and served.answer()["url"] in run.stderr and "runs here already" in run.stderr, run.stderr
    assert served.process.poll() is None and served.left()


def test_another_folder_gets_other_ports_and_ends_with_a_kill_of_the_command(served: Local, tmp_path: Path) -> None:
    with local(tmp_path) as other:
        answer = other.answer()
        assert answer["url"] != served.answer()["url"] and answer["key"] != served.answer()["key"]
        assert post(answer, "/v1/messages", MESSAGE, answer["key"])[0] == 200
        other.process.kill()
        other.process.wait(10)
        deadline = time.monotonic() + DOWN_S
        while other.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not other.left() and served.left()


def test_an_interrupt_ends_everything_and_leaves_no_process(served: Local) -> None:
    answer = served.answer()
    before = served.left()
    assert len(before) >= 3, "guardian's supervisor, engine and bridge"
    assert served.end(signal.SIGINT) == 0, served.errors.read_text("utf-8")
    assert not served.left() and not any(_alive(pid) for pid in before)
    assert "no process is left" in served.errors.read_text("utf-8")
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", int(answer["url"].rpartition(":")[2]))) != 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interrupt_while_the_engine_starts_leaves_nothing(tmp_path: Path) -> None:
    with local(tmp_path) as run:
        deadline = time.monotonic() + UP_S
        while len(run.left()) < 3 and time.monotonic() < deadline:
            assert run.process.poll() is None, run.errors.read_text("utf-8")
            time.sleep(0.1)
        assert run.end(signal.SIGTERM) == 0
        assert not run.left() and run.output.read_text("utf-8") == ""
