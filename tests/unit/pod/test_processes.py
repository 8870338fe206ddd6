"""Real processes: groups, stragglers, identities."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from pod import processes
from pod.processes import MARK, Identity

TOY = str(Path(__file__).parent / "toy_engine.py")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def started(log: Path, *flags: str, mark: str = "engine:test") -> tuple[subprocess.Popen[bytes], Identity]:
    argv = [sys.executable, TOY, "--port", str(free_port()), *flags]
    process = processes.start(argv, dict(os.environ), log, mark)
    identity = processes.identity_of(process.pid, argv, mark)
    assert identity is not None
    wait_for(lambda: b"startup complete" in log.read_bytes())
    return process, identity


def wait_for(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_has_its_own_group_and_its_output_goes_to_the_log(tmp_path: Path) -> None:
    process, identity = started(tmp_path / "log")
    stat = processes.stat_of(process.pid)
    assert stat is not None and stat.group == stat.session == process.pid
    assert processes.is_alive(identity)
    stopped = processes.stop(identity)
    assert not stopped.was_killed and not stopped.survivors and stopped.seconds < 5
    assert process.wait(5) == -15 and not processes.is_alive(identity)


def test_one_that_ignores_term_is_killed_after_its_grace(tmp_path: Path) -> None:
    process, identity = started(tmp_path / "log", "--ignore-sigterm")
    stopped = processes.stop(identity, grace_s=0.3)
    assert stopped.was_killed and 0.3 <= stopped.seconds < 5
    assert process.wait(5) == -9


def test_patience_can_be_ended(tmp_path: Path) -> None:
    _, identity = started(tmp_path / "log", "--ignore-sigterm")
    assert processes.stop(identity, grace_s=60, hurried=lambda: True).seconds < 5


def test_a_worker_that_left_the_group_is_found_by_its_mark(tmp_path: Path) -> None:
    process, identity = started(tmp_path / "log", "--worker", mark="engine:stray")
    worker = int((tmp_path / "log").read_text().split()[1])
    process.kill()
    process.wait(5)
    assert processes.marks_of(worker) == "engine:stray" and processes.marked_with({"engine:stray"}) == {worker}
    stopped = processes.stop(identity)
    assert stopped.stragglers == 1 and not stopped.survivors
    wait_for(lambda: (stat := processes.stat_of(worker)) is None or stat.state == "Z")


def test_a_core_without_a_mark_is_found_by_its_leader_that_is_gone(tmp_path: Path) -> None:
    process, identity = started(tmp_path / "log", "--core")
    core = int((tmp_path / "log").read_text().split()[1])
    process.kill()
    process.wait(5)
    assert processes.left_of("engine:test", ()) == set() and processes.left_of("engine:test", (identity,)) == {core}
    processes.kill({core})
    processes.wait_gone({core})
    assert processes.left_of("engine:test", (identity,)) == set()


def test_an_id_that_was_given_away_is_not_ours(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        impostor = Identity(other.pid, 1, "x", "engine:none")
        assert not processes.is_alive(impostor)
        assert not processes.stop(impostor).was_killed and other.poll() is None
    finally:
        other.kill()
        other.wait(5)


def test_our_own_ancestry_is_never_in_a_family() -> None:
    assert os.getpid() in processes.ancestry() and os.getppid() in processes.ancestry()
    session = processes.stat_of(os.getsid(0))
    started = session.started if session else 0
    assert not processes.family(Identity(os.getsid(0), started, "x", "none")) & processes.ancestry()


def test_ended_children_are_reaped() -> None:
    code = "import subprocess, sys; from pod import processes; import time\n" \
           "c = subprocess.Popen([sys.executable, '-c', 'raise SystemExit(3)']); time.sleep(0.5)\n" \
           "print(processes.reap_all() == [(c.pid, 3)], processes.reap_all())"  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(Path(processes.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout == "True []\n"


def test_the_mark_is_in_the_environment(tmp_path: Path) -> None:
    process = processes.start([sys.executable, "-c", f"import os; print(os.environ['{MARK}'])"], dict(os.environ), tmp_path / "log", "x:1")
    assert process.wait(10) == 0 and (tmp_path / "log").read_text() == "x:1\n"


def test_only_one_module_ends_engines() -> None:
    """Three places that stopped the engine had come apart, and two forgot its core; and patterns of names hit bystanders."""
    images = Path(processes.__file__).parents[2]
    sources = {file.relative_to(images).as_posix(): file.read_text("utf-8") for kind in ("*.py", "*.sh") for file in images.rglob(kind)}
    assert [name for name, text in sources.items() if "processes.stop" in text] == ["runtime/pod/supervisor/children.py"]
    assert [name for name, text in sources.items() if any(word in text for word in ("pkill", "killall", "pgrep"))] == []
