"""`python -m pod` as a process: exit codes, signals, whole groups."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pod import contract

from tests.unit.pod.manifests import example_manifest, with_launch

RUNTIME = Path(__file__).parents[3] / "images" / "runtime"
HAS_FORKED = "import subprocess, sys, time; c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); print(c.pid, flush=True); "


def manifest_file(folder: Path, *argv: str) -> Path:
    manifest = with_launch(example_manifest(bridge=dataclasses.replace(example_manifest().bridge, mode="off")), argv=argv)
    file = folder / "manifest.json"
    file.write_text(json.dumps(manifest.to_json()))
    return file


def command(file: Path, name: str) -> list[str]:
    return [sys.executable, "-m", "pod", "--manifest", str(file), name]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(RUNTIME), "API_KEY": "k"}


def finished(file: Path, name: str = "run", **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(file, name), env={**environment(), **extra}, capture_output=True, text=True, timeout=30)


def started(file: Path) -> tuple[subprocess.Popen[str], int]:
    """The running runtime, and the process id that its engine printed."""
    process = subprocess.Popen(command(file, "run"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and is_running(pid):
        time.sleep(0.02)
    return not is_running(pid)


def test_check_prints_a_summary(tmp_path: Path) -> None:
    result = finished(manifest_file(tmp_path, "vllm"), "check")
    assert result.returncode == 0
    assert "p: m, 262,144 tokens, port 18081" in result.stdout
    assert contract.Manifest.from_bytes((tmp_path / "manifest.json").read_bytes()).sha256() in result.stdout


@pytest.mark.parametrize(("text", "code"), [('{"schema_version": 99}', 76), ("{", 65), ('{"schema_version": 1}', 65)])
def test_a_bad_manifest_has_its_own_exit_code(tmp_path: Path, text: str, code: int) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(text)
    result = finished(file)
    assert result.returncode == code
    assert "Traceback" not in result.stderr and "error: " in result.stderr


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    assert finished(tmp_path / "none.json").returncode == 66
    assert finished(tmp_path).returncode == 66


def test_a_missing_secret_and_a_missing_program(tmp_path: Path) -> None:
    assert finished(manifest_file(tmp_path, "vllm"), API_KEY="").returncode == 69
    assert finished(manifest_file(tmp_path, "no-such-program-here")).returncode == 127
    assert finished(manifest_file(tmp_path, str(tmp_path))).returncode == 126


def test_the_engines_exit_code_is_ours(tmp_path: Path) -> None:
    assert finished(manifest_file(tmp_path, sys.executable, "-c", "raise SystemExit(7)")).returncode == 7
    killed = "import os; os.kill(os.getpid(), 9)"
    assert finished(manifest_file(tmp_path, sys.executable, "-c", killed)).returncode == 128 + 9


def test_the_engine_gets_its_environment_and_its_own_group(tmp_path: Path) -> None:
    code = "import os; print(os.environ['A'], os.getpgrp() == os.getpid())"
    assert finished(manifest_file(tmp_path, sys.executable, "-c", code)).stdout == "1 True\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_whole_group(tmp_path: Path, number: signal.Signals) -> None:
    process, grandchild = started(manifest_file(tmp_path, sys.executable, "-c", HAS_FORKED + "time.sleep(60)"))
    process.send_signal(number)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert wait_gone(grandchild)


def test_an_engine_that_dies_leaves_no_worker_behind(tmp_path: Path) -> None:
    process, grandchild = started(manifest_file(tmp_path, sys.executable, "-c", HAS_FORKED + "sys.exit(3)"))
    assert process.wait(10) == 3
    assert wait_gone(grandchild)


def test_a_second_signal_kills_an_engine_that_ignores_the_first(tmp_path: Path) -> None:
    code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(60)"
    process, engine = started(manifest_file(tmp_path, sys.executable, "-c", code))
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGKILL
    assert wait_gone(engine)


def test_patience_ends_by_itself(tmp_path: Path) -> None:
    """The same without a second signal, in a process of its own because the wait needs the main thread."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    program = f"import sys; from pod.child import exit_code_of_group as run; sys.exit(run([sys.executable, '-c', {code!r}], {{}}, print, grace_s=0.3))"
    process = subprocess.Popen([sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline() != "1\n":
        pass
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGKILL
