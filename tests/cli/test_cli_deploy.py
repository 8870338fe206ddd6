"""The deploy commands as processes, against a played RunPod by the real clock: interruption, exit codes, what stands where."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.runpod_stub import ENDPOINT_KEY, KEY, Course, FakeClock, RunpodStub
from tests.unit.deploy.servers import serving

pytestmark = pytest.mark.living

PROFILE = """kind: profile
summary: A pod of the tests.
extends: nemotron-ada
container: {name: "registry.example.com/me/pod:1"}
"""


class RealClock(FakeClock):
    """The machine's own time."""

    def time(self) -> float:
        return time.time()


class Machine:
    """A folder to run commands in."""

    def __init__(self, stub: RunpodStub, folder: Path) -> None:
        self.stub, self.folder = stub, folder
        (folder / "specs" / "profiles").mkdir(parents=True)
        (folder / "specs" / "profiles" / "mine.yaml").write_text(PROFILE)
        self.env = environment(
            RUNPOD_API_KEY=KEY, PODWRIGHT_API_KEY=ENDPOINT_KEY, PODWRIGHT_RUNPOD_URL=stub.url, PODWRIGHT_RUNPOD_PROXY=stub.url + "/proxy/{pod}/{port}", PODWRIGHT_SPECS=str(folder / "specs"),
        )  # fmt: skip

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from compiler.entry import main; main()", *args]
        return subprocess.Popen(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args: str) -> tuple[int, str, str]:
        process = self.start(*args)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    stub = RunpodStub(RealClock())
    stub.courses = [Course(placed=0.1, pulled=0.2, serves=0.3)]
    with serving(stub):
        yield Machine(stub, tmp_path)


def test_the_whole_way_in_processes(machine: Machine) -> None:
    code, out, err = machine.run("deploy", "mine", "--dry-run", "--unlocked")
    assert code == 0 and "candidates, in order" in out and not machine.stub.pods, err
    code, out, err = machine.run("deploy", "mine", "--yes", "--unlocked", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["ok"] and said["pod"]["id"] == "pod0001" and [p["ok"] for p in said["proofs"]] == [True] * 4
    assert (machine.folder / "build" / "mine" / "runpod-pod.json").is_file() and (machine.folder / ".podwright" / "mine.json").is_file()
    code, out, err = machine.run("status")
    assert code == 0 and "RUNNING, serving" in out and err == ""
    assert machine.run("deploy", "mine")[0] == 1  # Without a digest in the lock nothing happens.
    code, out, err = machine.run("terminate", "mine")
    assert code == 4 and "DPL035" in err and not machine.stub.pods["pod0001"].terminated
    assert machine.run("terminate", "mine", "--yes")[0] == 0 and machine.stub.pods["pod0001"].terminated


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_process_leaves_no_pod(machine: Machine, sent: signal.Signals) -> None:
    machine.stub.courses = [Course(serves=600)]
    process = machine.start("deploy", "mine", "--yes", "--unlocked")
    deadline = time.monotonic() + 60
    while not any(path.endswith("pod0001") for _, _, path in list(machine.stub.times)) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "terminated, nothing is billed any more" in err and "Traceback" not in err, err
    assert machine.stub.pods["pod0001"].terminated
    assert json.loads((machine.folder / ".podwright" / "mine.json").read_text())["pod"] is None


def test_a_killed_process_leaves_a_pod_that_the_next_command_finds(machine: Machine) -> None:
    machine.stub.courses = [Course(placed=0.1, pulled=0.2, serves=8)]
    process = machine.start("deploy", "mine", "--yes", "--unlocked")
    deadline = time.monotonic() + 60
    while not machine.stub.pods and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    code, out, err = machine.run("deploy", "mine", "--yes", "--unlocked", "--json")
    assert code == 0 and json.loads(out)["pod"]["id"] == "pod0001" and len(machine.stub.pods) == 1, err
