"""`python -m pod` as real processes: starts, deaths of every part, the end, and bad input."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from pod import contract, processes

from tests.unit.pod.living import PATIENCE_S, RUNTIME, Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import example_manifest

pytestmark = pytest.mark.living


def manifest_for(*flags: str, **watchdog: object) -> contract.Manifest:
    return toy_manifest(*flags, port=free_port(), endpoint=free_port(), **watchdog)


def ran(file: Path, command: str, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pod", "--manifest", str(file), command, *more], env={**os.environ, "PYTHONPATH": str(RUNTIME), **environ},
                          capture_output=True, text=True, timeout=30)  # fmt: skip


def test_check_prints_a_summary(tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(example_manifest().to_json()))
    result = ran(file, "check")
    assert result.returncode == 0 and "p: m, 262,144 tokens, port 18081" in result.stdout and example_manifest().sha256() in result.stdout


@pytest.mark.parametrize(("text", "code"), [('{"schema_version": 99}', 76), ("{", 65), ('{"schema_version": 1}', 65)])
def test_a_bad_manifest_has_its_own_exit_code(tmp_path: Path, text: str, code: int) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(text)
    result = ran(file, "check")
    assert result.returncode == code and "Traceback" not in result.stderr and "error: " in result.stderr
    assert ran(tmp_path / "none.json", "check").returncode == 66 and ran(tmp_path, "check").returncode == 66


def test_a_container_with_a_bad_manifest_stays_open_until_it_is_told_to_end(tmp_path: Path) -> None:
    pod = Pod(tmp_path, manifest_for())
    pod.file.write_text("{")
    pod.start()
    assert pod.process is not None
    time.sleep(1.5)
    assert pod.process.poll() is None and "stays open" in pod.log.read_text()
    assert pod.end() == 0


def test_status_of_nobody(tmp_path: Path) -> None:
    result = ran(tmp_path, "status", PODWRIGHT_STATUS_PORT=str(free_port()))
    assert result.returncode == 69 and "no supervisor answers" in result.stderr


def test_it_starts_serves_and_leaves_nothing(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--worker")) as pod:
        status = pod.serves()
        assert pod.complete()[0] == 200
        shown = ran(pod.file, "status", PODWRIGHT_STATUS_PORT=str(pod.status_port))
        assert shown.returncode == 0 and "serving" in shown.stdout and status["engine"]["manifest"][:12] in shown.stdout
        as_json = ran(pod.file, "status", "--json", PODWRIGHT_STATUS_PORT=str(pod.status_port))
        assert json.loads(as_json.stdout)["state"] == "serving"
        assert "k3y-for-tests" not in as_json.stdout + json.dumps(pod.ask("GET", "/journal?lines=500")[1])
        assert pod.end() == 0
        assert pod.left() == set()


def test_a_killed_engine_comes_back_and_clients_wait(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--slow-start", "1.5", "--worker")) as pod:
        first = pod.serves()["engine_pid"]
        os.kill(first, signal.SIGKILL)
        pod.until(lambda s: s["state"] == "reloading", "reloading")
        assert pod.complete()[0] == 200, "a client that comes meanwhile is held and then served"
        second = pod.serves()
        assert second["engine_pid"] != first and len(second["restarts"]["engine"]) == 1
        strays = [pid for pid in processes.marked_with({f"engine:{pod.nonce}"}) if pid != second["engine_pid"]]
        assert len(strays) == 1, "the worker of the killed engine is gone, that of the new one lives"


def cores(pod: Pod) -> list[int]:
    """Processes that engines without marks have forked, in the order of their starts."""
    return [int(line.split()[1]) for line in (pod.folder / "state/logs/engine.log").read_text().splitlines() if line.startswith("core ")]


def test_the_core_of_a_killed_engine_is_gone_before_the_next_start(tmp_path: Path) -> None:
    """vLLM's core outlives a server that is killed, holds the memory of the card, and has written its title over its mark."""
    with living(tmp_path, manifest_for("--core")) as pod:
        first = pod.serves()["engine_pid"]
        assert processes.marks_of(cores(pod)[0]) == ""
        os.kill(first, signal.SIGKILL)
        pod.until(lambda s: s["state"] == "serving" and s["engine_pid"] not in (None, first), "serving again")
        assert processes.stat_of(cores(pod)[0]) is None and processes.stat_of(cores(pod)[1]) is not None
        assert any("1 processes of a former engine" in line["message"] for line in pod.ask("GET", "/journal?lines=200")[1]["lines"])
        assert pod.end() == 0 and processes.stat_of(cores(pod)[1]) is None


def test_the_core_of_an_engine_that_was_killed_with_its_supervisor_is_gone_too(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--core")) as pod:
        first, supervisor = pod.serves()["engine_pid"], pod.supervisor()
        os.kill(supervisor, signal.SIGKILL)
        os.kill(first, signal.SIGKILL)
        pod.until(lambda s: s["state"] == "serving" and s["engine_pid"] not in (None, first), "serving again")
        assert processes.stat_of(cores(pod)[0]) is None


def test_a_killed_supervisor_is_not_seen_by_clients(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--generate-s", "1.5")) as pod:
        before = pod.serves()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answer = pool.submit(pod.complete)
            time.sleep(0.3)
            os.kill(pod.supervisor(), signal.SIGKILL)
            assert answer.result()[0] == 200
        after = pod.until(lambda s: s["state"] == "serving", "serving again")
        assert (after["engine_pid"], after["bridge_pid"]) == (before["engine_pid"], before["bridge_pid"])
        assert any("goes on as process" in line["message"] for line in after["last"])
        assert pod.complete()[0] == 200
        os.kill(after["engine_pid"], signal.SIGKILL)
        assert pod.until(lambda s: s["restarts"]["engine"], "restarted")["restarts"]["engine"], "an adopted engine is watched, too"


def test_a_start_survives_the_supervisor(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--slow-start", "4")) as pod:
        first = pod.until(lambda s: s["engine_pid"] and s["state"] == "booting", "booting")["engine_pid"]
        os.kill(pod.supervisor(), signal.SIGKILL)
        assert pod.serves()["engine_pid"] == first


def test_a_killed_bridge_comes_back_at_once(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for()) as pod:
        first = pod.serves()["bridge_pid"]
        os.kill(first, signal.SIGKILL)
        assert pod.complete()[0] == 200, "the socket stays open, so that the connection waits for the next bridge"
        assert pod.until(lambda s: s["bridge_pid"] not in (None, first), "a new bridge")["state"] == "serving"


def test_an_engine_that_ends_at_its_start_three_times_is_given_up(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--say", "RuntimeError: CUDA out of memory. Tried to allocate 2.0 GiB", "--exit-at-start", "1", crash_loop_restarts=1)) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "crash-loop" and "out of GPU memory" in status["fatal"]["cause"]
        assert any(line["kind"] == "spend" for line in pod.until(lambda s: any(x["kind"] == "spend" for x in s["last"]), "spend")["last"])
        code, answer = pod.complete()
        assert code == 529 and "out of GPU memory" in json.dumps(answer)


def test_an_end_that_nobody_knows_is_told_in_its_last_words_without_the_secret(tmp_path: Path) -> None:
    manifest = manifest_for("--say", "Illegal instruction with k3y-for-tests", "--exit-at-start", "1", crash_loop_restarts=1)
    with living(tmp_path, manifest) as pod:
        cause = pod.until(lambda s: s["state"] == "fatal", "fatal")["fatal"]["cause"]
        assert "its log ends with: Illegal instruction with [redacted]" in cause
    assert "k3y-for-tests" not in pod.log.read_text("utf-8", "replace")


class Provider(BaseHTTPRequestHandler):
    """Writes down what it is told."""

    told: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append((self.path, self.headers["Authorization"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on stderr."""


@pytest.mark.parametrize(("limits", "why"), [(contract.SpendLimits(4.0, None), "deploy.max_hours"), (contract.SpendLimits(None, 2.0), "no request for")])
def test_the_rent_is_ended_at_its_limit(tmp_path: Path, limits: contract.SpendLimits, why: str) -> None:
    manifest = manifest_for()
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, spend=limits))
    Provider.told.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        environ = {"RUNPOD_POD_ID": "pod1", "RUNPOD_API_KEY": "rpa_x", "PODWRIGHT_RUNPOD_API": f"http://127.0.0.1:{provider.server_address[1]}"}
        with living(tmp_path, manifest, environ) as pod:
            last = pod.until(lambda s: any(line["kind"] == "spend" for line in s["last"]), "end of the spend")["last"]
            assert why in next(line["message"] for line in last if line["kind"] == "spend-limit")
        provider.shutdown()
    assert Provider.told == [("/v2/pods/pod1/action", "Bearer rpa_x", b'{"action": "stop"}')]


def test_a_missing_secret_keeps_the_container_open(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for(), {"API_KEY": ""}) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "secret" and "API_KEY" in status["fatal"]["cause"]


def test_a_lever_with_a_wrong_value_keeps_the_container_open(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for(), {"VL_SEQS": "many"}) as pod:
        assert pod.until(lambda s: s["state"] == "fatal", "fatal")["fatal"]["code"] == "lever"


def test_a_port_that_is_taken_is_named_and_waited_for(tmp_path: Path) -> None:
    manifest = manifest_for()
    other = socket.socket()
    other.bind(("127.0.0.1", manifest.engine.launch.port))
    other.listen()
    with living(tmp_path, manifest) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "port-taken" and str(manifest.engine.launch.port) in status["fatal"]["cause"]
        other.close()
        pod.serves()


def test_two_runtimes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for()) as pod:
        first = pod.serves()
        command = [sys.executable, "-m", "pod", "--manifest", str(pod.file), "run"]
        second = subprocess.run(command, env=pod.environ, capture_output=True, text=True, timeout=30)
        assert second.returncode == 69 and "another runtime works" in second.stderr
        assert pod.serves()["engine_pid"] == first["engine_pid"]


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    manifest = manifest_for()
    from tests.unit.pod.manifests import with_launch

    with living(tmp_path, with_launch(manifest, argv=("no-such-program-here",))) as pod:
        assert pod.until(lambda s: s["state"] == "fatal", "fatal")["fatal"]["code"] == "no-program"


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with living(tmp_path, manifest_for(), {"PODWRIGHT_STATE_DIR": str(tmp_path / "file" / "state")}) as pod:
        status = pod.serves()
        assert "cannot be written" in status["state_folder_problem"]
        assert pod.end() == 0


def test_an_engine_that_ignores_the_end_is_killed_sooner_at_a_second_signal(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--ignore-sigterm")) as pod:
        pod.serves()
        began = time.monotonic()
        assert pod.process is not None
        pod.process.terminate()
        time.sleep(1.0)
        assert pod.process.poll() is None
        assert pod.end(signal.SIGINT) == 0 and time.monotonic() - began < 15
        assert pod.left() == set()


def test_a_killed_guardian_takes_everything_with_it(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for("--worker")) as pod:
        pod.serves()
        assert pod.process is not None
        pod.process.kill()
        deadline = time.monotonic() + PATIENCE_S
        while pod.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert pod.left() == set()


def test_a_second_life_goes_on_with_what_is_known(tmp_path: Path) -> None:
    with living(tmp_path, manifest_for()) as pod:
        pod.serves()
        assert pod.end() == 0
        pod.start()
        status = pod.serves()
        assert status["good"] is not None and len(pod.ask("GET", "/journal?lines=500")[1]["lines"]) > 10, "the journal survives"
        assert pod.end() == 0
