"""The life of a local run: told, served, ended, with a small program in the pod's place."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local import children, session
from compiler.deploy.local.run import Seen
from compiler.deploy.local.session import Session

pytestmark = pytest.mark.living

SLEEPS = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


class Toy:
    """A run whose looks are a list; the last one stays."""

    limit_s = 1.0

    def __init__(self, folder: Path, looks: list[Seen], program: str = SLEEPS, leftovers: int = 0) -> None:
        self.log, self.looks, self.program, self.leftovers, self.removed = folder / "log", looks, program, leftovers, 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen([sys.executable, "-c", self.program], stdout=stream, stderr=stream, preexec_fn=children.dying_with_us(signal.SIGTERM))
        return self.process

    def look(self) -> Seen:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def left(self) -> list[str]:
        return ["process 1"] * self.leftovers

    def remove(self) -> None:
        self.removed += 1
        self.leftovers = max(0, self.leftovers - 1)


SERVES = Seen("serving", serves=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "STARTING_S", 0.02)
    monkeypatch.setattr(session, "SERVING_S", 0.02)
    monkeypatch.setattr(session, "KILLED_S", 1.0)


def staying(toy: Toy, *numbers: signal.Signals, after: float = 0.3) -> tuple[list[str], int]:
    """What was said, and how often it served, of a session that gets signals one after the other."""
    said: list[str] = []
    served: list[float] = []
    main = threading.main_thread().ident
    assert main is not None
    def tell() -> None:
        while len(toy.looks) > 1 or toy.process is None:
            time.sleep(0.01)
        for number in numbers:
            time.sleep(after)
            signal.pthread_kill(main, number)

    teller = threading.Thread(target=tell)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    teller.start()
    try:
        Session(toy, said.append, lambda seen, seconds: served.append(seconds)).stay()
    finally:
        teller.join()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before, "the signals act again"
        assert toy.process is not None and toy.process.poll() is not None, "nothing is left running"
    return said, len(served)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_a_signal_and_says_each_phase_once(tmp_path: Path, number: signal.Signals) -> None:
    toy = Toy(tmp_path, [Seen("starting"), Seen("booting", "load"), Seen("booting", "load"), SERVES])
    said, served = staying(toy, number)
    assert served == 1
    assert [line.split("s  ")[1] for line in said[:3]] == ["starting", "booting: load", "serving"]
    assert said[3].startswith(f"{number.name}: stopping everything") and said[-1].endswith("no process is left")


def test_what_happens_in_service_is_told(tmp_path: Path) -> None:
    said, served = staying(Toy(tmp_path, [SERVES, SERVES, Seen("reloading", "start"), SERVES]), signal.SIGINT)
    assert served == 1 and any(line.endswith("reloading: start") for line in said)


def test_an_end_while_it_starts(tmp_path: Path) -> None:
    said, served = staying(Toy(tmp_path, [Seen("booting", "load")]), signal.SIGTERM)
    assert served == 0 and said[-1].endswith("no process is left")


def test_one_that_ends_by_itself_is_a_failure_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(LocalRunFailed, match="ended by itself with 3") as caught:
        staying(Toy(tmp_path, [Seen("starting")], "import sys; print('no room'); sys.exit(3)"))
    assert "no room" in caught.value.why and str(tmp_path / "log") in caught.value.fix


def test_one_that_can_never_serve_is_ended_and_the_cause_is_said(tmp_path: Path) -> None:
    with pytest.raises(LocalRunFailed, match="no such model") as caught:
        staying(Toy(tmp_path, [Seen("fatal", failure=("no such model", "name another"))]))
    assert caught.value.fix == "name another"


def test_what_outlives_it_is_killed_and_what_cannot_be_killed_is_named(tmp_path: Path) -> None:
    toy = Toy(tmp_path, [SERVES], leftovers=2)
    said, _ = staying(toy, signal.SIGINT)
    assert toy.removed == 2 and said[-1].endswith("no process is left")
    with pytest.raises(LocalRunFailed, match="still there: process 1"):
        staying(Toy(tmp_path, [SERVES], leftovers=1_000_000), signal.SIGINT)


def test_one_that_does_not_listen_to_term_is_killed_in_the_end(tmp_path: Path) -> None:
    toy = Toy(tmp_path, [Seen("starting")], STUBBORN)
    began = time.monotonic()
    staying(toy, signal.SIGINT, signal.SIGINT, after=0.5)
    assert toy.process is not None and toy.process.returncode == -signal.SIGKILL and time.monotonic() - began < 10


def test_a_child_dies_with_us(tmp_path: Path) -> None:
    """Even when we are killed: the kernel tells it."""
    code = ("import signal, subprocess, sys\nfrom compiler.deploy.local.children import dying_with_us\n"
            f"p = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], preexec_fn=dying_with_us(signal.SIGTERM))\nprint(p.pid, flush=True)\np.wait()\n")  # fmt: skip
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_that_is_waited_for_ends_with_whoever_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "TICK_S", 0.2)
    file = tmp_path / "pids"
    code = f"import os, subprocess, sys, time; c = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]); open({str(file)!r}, 'w').write(f'{{os.getpid()}} {{c.pid}} '); time.sleep(60)"

    def interrupted() -> None:
        if file.exists() and len(file.read_text().split()) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        children.run_to_the_end([sys.executable, "-c", code], {}, tmp_path / "log", interrupted)
    deadline = time.monotonic() + 10
    pids = [int(word) for word in file.read_text().split()]
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
