"""The desktop without a screen: what its programs get, what it says where it cannot start, and when the supervisor starts it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pod import desktop, processes
from pod.contract import Desktop
from pod.desktop import Session
from pod.folders import StateFolder
from pod.supervisor import desktop as supervised
from pod.supervisor.desktop import Desktops
from pod.supervisor.state import State, Target

from tests.unit.pod.manifests import example_manifest

MISSING = desktop.missing
ENVIRON = {"PATH": "/bin", "HOME": "/root", "HF_TOKEN": "hf_x", "VNC_PASSWORD": "longer-than-eight", processes.MARK: "desktop:n"}


@pytest.fixture
def novnc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "novnc"
    (folder / "app").mkdir(parents=True)
    (folder / "vnc.html").write_text("vnc", "utf-8")
    (folder / "index.html").write_text("a listing", "utf-8")
    monkeypatch.setattr(desktop, "NOVNC", folder)
    return folder


def test_programs_get_no_secret_and_the_password_is_in_a_private_file(tmp_path: Path, novnc: Path) -> None:
    session = Session("0.0.0.0", 6080, "longer-than-eight", ENVIRON, tmp_path)
    assert session._env == {"PATH": "/bin", "HOME": "/root", processes.MARK: "desktop:n"}
    file = tmp_path / "password"
    assert file.read_text("utf-8") == "longer-t\n" and stat.S_IMODE(file.stat().st_mode) == 0o600
    vnc, websockify = session._vnc_argv(), session._websockify_argv()
    assert "-localhost" in vnc and "longer-t" not in " ".join(vnc) and websockify[-2] == "0.0.0.0:6080"
    assert websockify[-1] == f"127.0.0.1:{vnc[vnc.index('-rfbport') + 1]}"


def test_what_is_served_is_novnc_and_a_first_page_but_not_the_password(tmp_path: Path, novnc: Path) -> None:
    session = Session("0.0.0.0", 6080, "secret", ENVIRON, tmp_path)
    web = Path(session._websockify_argv()[2])
    assert sorted(f.name for f in web.iterdir()) == ["app", "index.html", "vnc.html"]
    assert "vnc.html?autoconnect=true" in (web / "index.html").read_text("utf-8") and not (web / "password").exists()


@pytest.mark.parametrize(("password", "said"), [("", "no password"), ("x", "Xvfb, startxfce4, x11vnc, websockify, noVNC missing")])
def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], password: str, said: str) -> None:
    monkeypatch.setenv(desktop.PASSWORD_ENV, password)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(desktop, "NOVNC", tmp_path)
    monkeypatch.setattr(desktop, "missing", MISSING)
    assert desktop.main(["--port", "1", "--folder", str(tmp_path / "f")]) == 69
    assert said in capsys.readouterr().err and not (tmp_path / "f").exists()


def test_a_line_is_read_as_it_comes_and_none_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"7\nmore")
    assert desktop._line(reader, 5.0) == "7"
    os.close(writer)
    assert desktop._line(reader, 5.0) == ""
    os.close(reader)
    with socket.socketpair()[0] as silent:
        silent.setblocking(False)
        assert desktop._line(os.pipe()[0], 0.05) == ""


class Played:
    """The supervisor's children, played: what was started, and who lives."""

    def __init__(self) -> None:
        self.started: list[tuple[list[str], dict[str, str]]] = []
        self.living: list[Any] = []

    def of(self, role: str) -> Any:
        return self.living[-1] if self.living else None

    def all(self) -> tuple[Any, ...]:
        return tuple(self.living)

    def mark(self, role: str) -> str:
        return f"{role}:played"

    def start(self, role: str, argv: list[str], env: dict[str, str], log: Path) -> Any:
        self.started.append((argv, env))
        self.living.append(SimpleNamespace(pid=len(self.started)))
        return self.living[-1]


async def played(folder: Path, environ: dict[str, str], script: Callable[[Played, dict[str, State]], Any], wants: bool = True) -> tuple[Played, list[str]]:
    """One desktop's keeper, run beside a script that changes the world; what it started and said."""
    base = example_manifest()
    manifest = dataclasses.replace(base, pod=dataclasses.replace(base.pod, desktop=Desktop(6080, "VNC_PASSWORD") if wants else None))
    now = {"state": State(Target(manifest, manifest.engine.name, "s"), 0.0)}
    children, said = Played(), list[str]()
    keeper = Desktops(StateFolder(folder), environ, children, lambda: now["state"], lambda kind, message, **facts: said.append(message))  # type: ignore[arg-type]
    task = asyncio.create_task(keeper.run())
    await script(children, now)
    assert not task.done(), "the supervisor ends with any of its parts"
    task.cancel()
    return children, said


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "LOOK_S", 0.01)
    monkeypatch.setattr(supervised, "PAUSES_S", (0.0, 0.01, 0.02, 0.03))
    monkeypatch.setattr(desktop, "missing", lambda path: [])


def test_it_waits_for_the_engine_and_comes_back(tmp_path: Path) -> None:
    async def script(children: Played, now: dict[str, State]) -> None:
        await asyncio.sleep(0.1)
        assert not children.started, "the engine's first start has the machine to itself"
        now["state"] = now["state"].but(serving=True)
        await asyncio.sleep(0.1)
        assert len(children.started) == 1
        children.living.clear()
        await asyncio.sleep(0.3)
        assert len(children.started) == 2

    children, said = asyncio.run(played(tmp_path, ENVIRON, script))
    argv, env = children.started[0]
    assert argv[1:3] == ["-m", "pod.desktop"] and argv[argv.index("--port") + 1] == "6080" and argv[argv.index("--host") + 1] == "0.0.0.0"
    assert env == {"PATH": "/bin", "HOME": "/root", desktop.PASSWORD_ENV: "longer-than-eight"}
    assert "only the first 8 characters count" in said[0]


def test_one_that_lives_already_is_not_started_again(tmp_path: Path) -> None:
    async def script(children: Played, now: dict[str, State]) -> None:
        children.living.append(SimpleNamespace(pid=1))
        now["state"] = now["state"].but(serving=True)
        await asyncio.sleep(0.1)

    assert not asyncio.run(played(tmp_path, ENVIRON, script))[0].started


@pytest.mark.parametrize(("environ", "absent", "said"), [({**ENVIRON, "VNC_PASSWORD": "{{ RUNPOD_SECRET_x }}"}, [], "VNC_PASSWORD is empty"), (ENVIRON, ["x11vnc"], "this image lacks x11vnc")])
def test_why_there_is_none_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], absent: list[str], said: str) -> None:
    monkeypatch.setattr(desktop, "missing", lambda path: absent)

    async def script(children: Played, now: dict[str, State]) -> None:
        now["state"] = now["state"].but(serving=True)
        await asyncio.sleep(0.1)

    children, lines = asyncio.run(played(tmp_path, environ, script))
    assert not children.started and len(lines) == 1 and said in lines[0]


@pytest.mark.parametrize("change", [{"stopping": True, "serving": True}, {"serving": True}])
def test_none_is_started_for_a_pod_that_ends_or_wants_none(tmp_path: Path, change: dict[str, Any]) -> None:
    async def script(children: Played, now: dict[str, State]) -> None:
        now["state"] = now["state"].but(**change)
        await asyncio.sleep(0.1)

    children, said = asyncio.run(played(tmp_path, ENVIRON, script, wants="stopping" in change))
    assert not children.started and not said
