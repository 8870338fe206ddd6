"""`python -m pod.bridge --listen HOST:PORT --upstream URL ...`, or `--manifest FILE` for the settings of a pod.

SIGTERM and SIGINT: no new connections, answers under way finish for up to 25 s, then the end. SIGQUIT: the same without haste, for
a process that another one has replaced. SIGHUP, or another manifest file: it is read again, and open streams go on. A listening
socket that is handed in as systemd does (LISTEN_FDS=1, descriptor 3) is taken over, so that the process can be replaced without one refused connection. Exit codes: 0 drained; 64 a setting cannot be used; 65 and 66 the
manifest is not valid or cannot be read; 69 a library is missing, or the address is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pod.bridge import settings as settings_
from pod.bridge.settings import Settings, SettingsError
from pod.contract import Manifest, ManifestError

OK, BAD_SETTING, BAD_MANIFEST, NO_MANIFEST, UNAVAILABLE = 0, 64, 65, 66, 69
LIBRARIES = "uvloop, httptools and msgspec"
_FIRST_INHERITED = 3
# Between two looks at the manifest's file; a reload of the bridge alone took 5 s in the documents.
WATCH_S = 2.0
# A replaced process lives as long as its longest answer, and no answer of an engine lasts hours.
REPLACED_S = 4 * 3600.0


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of one bridge's life."""
    chosen = list(sys.argv[1:] if words is None else words)
    load = Loader(chosen)
    try:
        settings = load()
    except SettingsError as error:
        return _failed(BAD_SETTING, str(error))
    except ManifestError as error:
        return _failed(BAD_MANIFEST, str(error))
    except OSError as error:
        return _failed(NO_MANIFEST, f"{error.filename}: {error.strerror}")
    try:
        importlib.import_module("httptools")
    except ImportError:
        why = f"httptools is not installed. The bridge needs {LIBRARIES}, which every vLLM image has"
        return _failed(UNAVAILABLE, f"{why}; elsewhere: pip install 'podwright[bridge]'")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 16)), hard))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings, load))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed; the standard one does the same at twice the cost."""
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class Loader:
    """Reads the settings, now and whenever they may have changed; `file` is the manifest, None where there is none."""

    def __init__(self, words: list[str]) -> None:
        self.file: Path | None = None
        self._read: tuple[int, int, int] | None = None
        if any(word == "--manifest" or word.startswith("--manifest=") for word in words):
            parser = argparse.ArgumentParser(prog="podwright bridge", description="All settings from a pod's manifest.")
            parser.add_argument("--manifest", type=Path, required=True, metavar="FILE")
            self.file = parser.parse_args(words).manifest
            return
        parser = argparse.ArgumentParser(prog="podwright bridge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                         epilog="--manifest FILE alone takes all settings from a pod's manifest.")  # fmt: skip
        settings_.add_arguments(parser)
        self._options = parser.parse_args(words)

    def __call__(self) -> Settings:
        """The settings. Raises SettingsError, ManifestError, OSError."""
        if self.file is None:
            return settings_.from_options(self._options)
        self._read = self._stamp()
        return settings_.from_manifest(Manifest.from_bytes(self.file.read_bytes()))

    def is_stale(self) -> bool:
        """Whether the manifest's file is another one than what was read last."""
        return (stamp := self._stamp()) is not None and stamp != self._read

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.file.stat() if self.file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


async def _serve(settings: Settings, load: Loader) -> int:
    from pod.bridge.app import DRAIN_S, App

    loop = asyncio.get_running_loop()
    try:
        app = App(settings)
    except SettingsError as error:
        return _failed(BAD_SETTING, str(error))
    stopped: asyncio.Future[float] = loop.create_future()
    for number, seconds in ((signal.SIGTERM, DRAIN_S), (signal.SIGINT, DRAIN_S), (signal.SIGQUIT, REPLACED_S)):
        loop.add_signal_handler(number, _stop, app, stopped, seconds)
    loop.add_signal_handler(signal.SIGHUP, _reload, app, load)
    try:
        host, port = await app.start(_inherited())
    except OSError as error:
        return _failed(UNAVAILABLE, f"cannot listen on {settings.bind_host}:{settings.port}: {error.strerror}")
    if not settings.keys:
        why = "" if settings.bind_host == settings.host else f" although {settings.host} was asked for"
        app.log(f"no key is set: only this machine may connect{why}; name a variable with a key by --api-key-env")
    app.log(f"{settings.mode}: http://{host}:{port} -> {', '.join(model.upstream for model in settings.models)}")
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look at it again
    watch = None if load.file is None else loop.create_task(_watched(app, load))
    seconds = await stopped
    app.log("draining")
    if watch is not None:
        watch.cancel()
    await app.stop(seconds)
    return OK


def _stop(app: Any, stopped: asyncio.Future[float], seconds: float) -> None:
    if stopped.done():
        app.server.hurry(seconds)
    else:
        stopped.set_result(seconds)


async def _watched(app: Any, load: Loader) -> None:
    """Reads the settings again whenever the manifest's file is another one."""
    while True:
        await asyncio.sleep(WATCH_S)
        if load.is_stale():
            _reload(app, load)


def _reload(app: Any, load: Loader) -> None:
    try:
        settings = load()
        app.apply(settings)
    except (SettingsError, ManifestError, OSError) as error:
        app.log(f"the old settings stay: {error}")
    else:
        app.log("new settings; the address stays as it was")


def _inherited() -> socket.socket | None:
    """The socket that the parent opened for us, if it did."""
    if os.environ.get("LISTEN_FDS") != "1" or os.environ.get("LISTEN_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return socket.socket(fileno=_FIRST_INHERITED)


def _failed(code: int, message: str) -> int:
    print(f"podwright bridge: error: {message}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
