"""`python -m pod.desktop`: a remote desktop. Xvfb is the screen, XFCE the desktop on it, x11vnc shows it on loopback only, and websockify
with noVNC is the one thing that is reached from outside.

The supervisor starts this program, and starts it again when it ends; this program starts the four, and starts each again when it ends.
It runs at the lowest priority: whatever the engine wants comes first. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pod import processes

PASSWORD_ENV = "PODWRIGHT_DESKTOP_PASSWORD"
PROGRAMS = ("Xvfb", "startxfce4", "x11vnc", "websockify")
NOVNC = Path("/usr/share/novnc")
SCREEN = "1600x900x24"
# RFB's password is a DES key: what is longer is cut by every server and client.
PASSWORD_LENGTH = 8
# The engine and the bridge come first.
NICENESS = 19
# Bounds the start of Xvfb, which takes a tenth of a second on an idle core.
SCREEN_S = 60.0
# Pauses before something that ended is started again; a program that ends at once must not spin.
PAUSES_S = (0.5, 2.0, 5.0, 15.0)
# One that lived this long was in order when it started.
SETTLED_S = 60.0
# Bounds how long the desktop's programs may take to end; nothing in them is worth waiting for.
STOP_S = 3.0
LOOK_S = 0.25
# What a session on the screen needs of the pod's environment; secrets are none of it. The mark is how the runtime finds what is left.
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TERM", processes.MARK)
_PAGE = '<!doctype html><meta charset="utf-8"><title>desktop</title><meta http-equiv="refresh" content="0; url=vnc.html?autoconnect=true&amp;resize=scale">\n'


def missing(path: str | None) -> list[str]:
    """What a desktop needs and this image lacks."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return [*absent, *([] if (NOVNC / "vnc.html").is_file() else ["noVNC"])]


@dataclasses.dataclass
class Part:
    """One of the four programs. `argv` is asked at each start, `env` is what it runs with."""

    name: str
    argv: Callable[[], Sequence[str]]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    not_before: float = 0.0


class Session:
    """One desktop. `port` is noVNC's; the VNC server gets a free port on loopback."""

    def __init__(self, host: str, port: int, password: str, environ: Mapping[str, str], folder: Path) -> None:
        self._host, self._port, self._folder = host, port, folder
        self._vnc_port = free_port()
        self._env = {name: value for name, value in environ.items() if name in _KEPT} | {"HOME": environ.get("HOME") or "/root"}
        self._password_file = _private(folder / "password", f"{password[:PASSWORD_LENGTH]}\n")
        self._web = _web(folder)
        self._display = ""
        self._ending = False
        self.parts = (Part("x11vnc", self._vnc_argv), Part("websockify", self._websockify_argv), Part("startxfce4", lambda: ["startxfce4"]))
        self._screen: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until a signal. A screen that dies takes all with it, and all come back."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_end)
        deaths = 0
        while not self._ending:
            began = time.monotonic()
            try:
                self._start_screen()
                self._keep()
            finally:
                self._stop()
            deaths = 0 if time.monotonic() - began > SETTLED_S else deaths + 1
            self._pause(PAUSES_S[min(deaths, len(PAUSES_S) - 1)])
        return 0

    def _told_to_end(self, *_: object) -> None:
        self._ending = True

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._ending and time.monotonic() < until:
            time.sleep(LOOK_S)

    def _start_screen(self) -> None:
        """Xvfb looks for a free display by itself and says which, so a lock that a killed container left is in nobody's way."""
        reader, writer = os.pipe()
        try:
            self._screen = self._started(["Xvfb", "-displayfd", str(writer), "-screen", "0", SCREEN, "-nolisten", "tcp", "-noreset"], (writer,))
        finally:
            os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            number = _line(stream.fileno(), SCREEN_S)
        self._display = f":{number}" if number.isdigit() else ""
        say(f"screen {self._display or 'none: Xvfb did not start'}")

    def _keep(self) -> None:
        """Start what is not running, as long as the screen is there."""
        for part in self.parts:
            part.deaths, part.not_before = 0, 0.0
        while self._display and not self._ending and self._screen is not None and self._screen.poll() is None:
            for part in self.parts:
                self._look_at(part, time.monotonic())
            time.sleep(LOOK_S)

    def _look_at(self, part: Part, now: float) -> None:
        if part.process is not None and part.process.poll() is not None:
            part.deaths = 0 if now - part.started > SETTLED_S else part.deaths + 1
            pause = PAUSES_S[min(part.deaths, len(PAUSES_S) - 1)]
            say(f"{part.name} ended with {part.process.returncode}; started again in {pause:g} s")
            part.process, part.not_before = None, now + pause
        if part.process is None and now >= part.not_before:
            part.process, part.started = self._started(part.argv()), now

    def _started(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        env = {**self._env, "DISPLAY": self._display, "XDG_RUNTIME_DIR": str(self._folder)}
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr, pass_fds=tuple(descriptors), cwd=self._env["HOME"], start_new_session=True)

    def _vnc_argv(self) -> list[str]:
        return ["x11vnc", "-display", self._display, "-localhost", "-no6", "-noipv6", "-rfbport", str(self._vnc_port), "-passwdfile", str(self._password_file),
                "-forever", "-shared", "-quiet", "-noxdamage"]  # fmt: skip

    def _websockify_argv(self) -> list[str]:
        return ["websockify", "--web", str(self._web), f"{self._host}:{self._port}", f"127.0.0.1:{self._vnc_port}"]

    def _stop(self) -> None:
        """End the four with all that they started; each leads a session of its own."""
        running = [p for p in (*(part.process for part in self.parts), self._screen) if p is not None]
        for process in running:
            _signal_group(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while any(p.poll() is None for p in running) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in running:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
        for part in self.parts:
            part.process = None
        self._screen = None


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _line(descriptor: int, seconds: float) -> str:
    """The first line that comes within so many seconds; empty where none does."""
    os.set_blocking(descriptor, False)
    text, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            chunk = os.read(descriptor, 64)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        text += chunk
        if not chunk or b"\n" in text:
            break
    return text.partition(b"\n")[0].decode("ascii", "replace").strip()


def _private(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


def _web(folder: Path) -> Path:
    """noVNC's own files, and a first page that connects: its package has none."""
    web = folder / "web"
    web.mkdir()
    for entry in NOVNC.iterdir():
        if entry.name != "index.html":
            (web / entry.name).symlink_to(entry)
    (web / "index.html").write_text(_PAGE, "utf-8")
    return web


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def say(message: str) -> None:
    """A line for the desktop's log."""
    print(f"[desktop] {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 told to end, 69 something is missing."""
    parser = argparse.ArgumentParser(prog="python -m pod.desktop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="0.0.0.0", help="address of noVNC")
    parser.add_argument("--port", type=int, required=True, help="port of noVNC")
    parser.add_argument("--folder", type=Path, required=True, help="a folder of its own, emptied first")
    options = parser.parse_args(arguments)
    password, absent = os.environ.get(PASSWORD_ENV, ""), missing(os.environ.get("PATH"))
    if not password or absent:
        say(f"not started: {'no password' if not password else ', '.join(absent) + ' missing'}")
        return 69
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True, mode=0o700)
    try:
        return Session(options.host, options.port, password, os.environ, options.folder).run()
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
