"""Claude Code itself, and the official SDK's client, against a bridge in front of a scripted engine.

Needs `claude-code/` and `sdk/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_client.sh` makes them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pod.bridge.net import Bridge, Engine, Peer, pair

PARTS = Path(os.environ.get("PODWRIGHT_REAL_PARTS_DIR") or Path.home() / ".cache" / "podwright" / "real-parts")
CLAUDE = PARTS / "claude-code" / "node_modules" / ".bin" / "claude"
PYTHON = PARTS / "sdk" / "bin" / "python"
KEY = "test-key-of-the-bridge"
pytestmark = pytest.mark.real_client
needs_claude = pytest.mark.skipif(not CLAUDE.exists(), reason=f"Claude Code is not installed: {CLAUDE} does not exist")
needs_sdk = pytest.mark.skipif(not PYTHON.exists(), reason=f"the official SDK is not installed: {PYTHON} does not exist")

Delta = dict[str, Any]
Script = Callable[[list[dict[str, Any]]], list[Delta]]


def call(index: int, name: str, **arguments: Any) -> list[Delta]:
    """A tool call as an engine streams it, its arguments in three pieces."""
    text = json.dumps(arguments)
    cuts = [text[: len(text) // 3], text[len(text) // 3 : len(text) // 2], text[len(text) // 2 :]]
    first = {
        "tool_calls": [
            {
                "index": index,
                "id": f"chatcmpl-tool-{index}-{os.urandom(4).hex()}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
        ]
    }
    return [first, *({"tool_calls": [{"index": index, "function": {"arguments": cut}}]} for cut in cuts)]


def results(messages: list[dict[str, Any]]) -> list[str]:
    """What tools answered so far."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def engine_of(script: Script) -> Engine:
    """An engine whose answer is a function of the conversation. Requests without tools are Claude Code's own small ones."""

    async def answer(peer: Peer) -> None:
        body = peer.asked.json
        deltas = script(body["messages"]) if body.get("tools") else [{"content": '{"title": "Test"}'}]
        if not body.get("stream"):
            text = "".join(delta.get("content", "") for delta in deltas)
            peer.whole(
                200,
                {
                    "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 5},
                },
            )
            return
        peer.head()
        peer.chunk({"role": "assistant", "content": ""}, usage={"prompt_tokens": 1200, "completion_tokens": 0})
        for delta in deltas:
            peer.chunk(delta)
            await asyncio.sleep(0)
        peer.chunk({}, "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop")
        peer.done()

    return Engine(v1__chat__completions=answer, tokenize=lambda peer: peer.whole(200, {"count": 1200}),
                  v1__models=lambda peer: peer.whole(200, {"data": [{"id": "served/name", "max_model_len": 262144}]}))  # fmt: skip


async def claude_process(bridge: Bridge, folder: Path, prompt: str, **more: str) -> asyncio.subprocess.Process:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    node = shutil.which("node")
    assert node is not None
    environ = {
        "PATH": f"{Path(node).parent}:/usr/bin:/bin", "HOME": str(home), "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{bridge.port}",
        "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": "served/name", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", **more,
    }  # fmt: skip
    words = ["-p", prompt, "--permission-mode", "acceptEdits", "--output-format", "json"]
    return await asyncio.create_subprocess_exec(str(CLAUDE), *words, env=environ, cwd=folder, stdin=asyncio.subprocess.DEVNULL,
                                                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)  # fmt: skip


async def claude(bridge: Bridge, folder: Path, prompt: str, **more: str) -> dict[str, Any]:
    """The JSON result of one run."""
    process = await claude_process(bridge, folder, prompt, **more)
    try:
        out, problems = await asyncio.wait_for(process.communicate(), 90)
    except TimeoutError:
        process.kill()
        raise
    assert out, problems.decode()
    result: dict[str, Any] = json.loads(out)
    return result


def played(script: Script, folder: Path, prompt: str, **more: str) -> tuple[dict[str, Any], Engine, Bridge]:
    """One run of Claude Code against a script."""
    engine = engine_of(script)
    found: list[Any] = []

    async def work() -> None:
        async with pair(engine, keys=(("claude", "KEY"),), environ={"KEY": KEY}, ping_s=15.0) as bridge:
            found.extend((await claude(bridge, folder, prompt, **more), engine, bridge))

    asyncio.run(asyncio.wait_for(work(), 120))
    return found[0], found[1], found[2]


@needs_claude
def test_a_plain_turn(tmp_path: Path) -> None:
    result, engine, bridge = played(
        lambda _: [{"reasoning": "Let me see."}, {"content": "It is "}, {"content": "four."}], tmp_path, "two and two?"
    )
    assert result["is_error"] is False and result["result"] == "It is four."
    assert {line["status"] for line in bridge.trace} == {200} and {line["client"] for line in bridge.trace} <= {"claude"}
    system = engine.of("/v1/chat/completions")[-1].json["messages"][0]
    assert system["role"] == "system" and "x-anthropic-billing-header" not in json.dumps(system)
    assert any(usage["inputTokens"] == 4 and usage["cacheReadInputTokens"] == 16 for usage in result["modelUsage"].values())


@needs_claude
def test_a_file_is_written(tmp_path: Path) -> None:
    target = tmp_path / "hello.txt"
    text = 'line "one"\n\tdeux \u2028 \U0001f600\n' * 50

    def script(messages: list[dict[str, Any]]) -> list[Delta]:
        return (
            [{"content": "Done."}]
            if results(messages)
            else [{"reasoning": "Write."}, *call(0, "Write", file_path=str(target), content=text)]
        )

    result, _, _ = played(script, tmp_path, "write hello.txt")
    assert result["result"] == "Done." and target.read_text() == text


@needs_claude
def test_parallel_reads_and_a_failing_tool(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"content of {name}")
    seen: list[list[str]] = []

    def script(messages: list[dict[str, Any]]) -> list[Delta]:
        seen.append(results(messages))
        if seen[-1]:
            return [{"content": "Read."}]
        first, second, third = (call(i, "Read", file_path=str(tmp_path / name)) for i, name in enumerate(("a.txt", "b.txt", "missing.txt")))
        return [{"content": "Reading."}, *(delta for three in zip(first, second, third, strict=True) for delta in three)]  # interleaved

    result, _, _ = played(script, tmp_path, "read the files")
    assert result["result"] == "Read." and len(seen[-1]) == 3
    assert "content of a.txt" in seen[-1][0] and "content of b.txt" in seen[-1][1] and "content of" not in seen[-1][2]


@needs_claude
def test_an_image_is_seen(tmp_path: Path) -> None:
    def part(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = part(b"IHDR", b"\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0")
    png = b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)) + part(b"IEND", b"")
    (tmp_path / "red.png").write_bytes(png)

    def script(messages: list[dict[str, Any]]) -> list[Delta]:
        return [{"content": "Red."}] if results(messages) else call(0, "Read", file_path=str(tmp_path / "red.png"))

    result, engine, _ = played(script, tmp_path, "look at red.png")
    last = engine.of("/v1/chat/completions")[-1].json["messages"]
    parts = [part for message in last if isinstance(message["content"], list) for part in message["content"]]
    assert result["result"] == "Red." and any(
        part["type"] == "image_url" and part["image_url"]["url"].startswith("data:image/") for part in parts
    )


@needs_claude
def test_a_turn_after_a_refusal_that_passes(tmp_path: Path) -> None:
    engine = engine_of(lambda _: [{"content": "Here now."}])
    answer, refusals = engine.answers["/v1/chat/completions"], [429, 503]

    def picky(peer: Peer) -> Any:
        if peer.asked.json.get("tools") and refusals:
            peer.whole(refusals.pop(), {"error": {"message": "busy"}}, "retry-after: 1\r\n")
            return None
        return answer(peer)

    engine.answers["/v1/chat/completions"] = picky

    async def work() -> None:
        async with pair(engine) as bridge:
            result = await claude(bridge, tmp_path, "hello")
            assert result["result"] == "Here now." and refusals == []
            assert {429, 503} <= {line["status"] for line in bridge.trace}

    asyncio.run(asyncio.wait_for(work(), 120))


@needs_claude
def test_a_cancelled_turn_ends_the_generation(tmp_path: Path) -> None:
    async def work() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def endless(peer: Peer) -> None:
            peer.head()
            if peer.asked.json.get("tools"):
                peer.chunk({"content": "a"})
                arrived.set()
                if await peer.left(30):
                    left.set()
            else:
                peer.text("x")

        engine = engine_of(lambda _: [])
        engine.answers["/v1/chat/completions"] = endless
        async with pair(engine) as bridge:
            process = await claude_process(bridge, tmp_path, "go on for ever")
            await asyncio.wait_for(arrived.wait(), 60)
            process.terminate()
            await asyncio.wait_for(left.wait(), 20)
            await process.wait()

    asyncio.run(asyncio.wait_for(work(), 120))


@needs_claude
def test_a_long_prompt(tmp_path: Path) -> None:
    result, engine, _ = played(lambda _: [{"content": "Long."}], tmp_path, "Summarise: " + "word " * 24_000)
    assert result["result"] == "Long."
    assert len(engine.of("/v1/chat/completions")[-1].body) > 120_000


@needs_claude
def test_an_overflow_ends_in_a_compaction(tmp_path: Path) -> None:
    """The engine's own words for too long a prompt make Claude Code summarise the conversation and go on."""
    (tmp_path / "a.txt").write_text("some content\n" * 50)
    asked: list[str] = []
    too_long = (
        "This model's maximum context length is 262144 tokens. However, your prompt contains 270000 input tokens. Please reduce the length."
    )

    def script(messages: list[dict[str, Any]]) -> list[Delta]:
        last = json.dumps(messages[-1])
        asked.append(last)
        if "detailed summary" in last:
            return [{"content": "<analysis>A.</analysis><summary>The user wants a.txt read. It was read.</summary>"}]
        if results(messages):
            return []  # stands for the refusal, which `picky` gives
        return (
            [{"content": "After all."}]
            if any("detailed summary" in text for text in asked)
            else call(0, "Read", file_path=str(tmp_path / "a.txt"))
        )

    engine = engine_of(script)
    answer = engine.answers["/v1/chat/completions"]

    def picky(peer: Peer) -> Any:
        body = peer.asked.json
        if body.get("tools") and results(body["messages"]) and "detailed summary" not in json.dumps(body["messages"][-1]):
            peer.whole(400, {"error": {"message": too_long, "code": 400}})
            return None
        return answer(peer)

    engine.answers["/v1/chat/completions"] = picky

    async def work() -> None:
        async with pair(engine) as bridge:
            result = await claude(bridge, tmp_path, "read a.txt")
            assert any("detailed summary" in text for text in asked), [line.get("error") for line in bridge.trace]
            assert result["result"] == "After all." and result["is_error"] is False

    asyncio.run(asyncio.wait_for(work(), 120))


SDK = """
import asyncio, anthropic, json, sys
client = anthropic.Anthropic(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
tools = [{"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}]
ask = dict(model="served/name", max_tokens=2000, messages=[{"role": "user", "content": "hi"}], tools=tools)
with client.messages.stream(**ask, thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
    events = [event.type for event in stream]
    streamed = stream.get_final_message()
whole = client.messages.create(**ask)
counted = client.messages.count_tokens(**{k: v for k, v in ask.items() if k != "max_tokens"})
models = [model.id for model in client.models.list(limit=1)]
try:
    anthropic.Anthropic(base_url=sys.argv[1], api_key="wrong", max_retries=0).messages.create(**ask)
except anthropic.AuthenticationError as error:
    refused = [error.status_code, error.body["error"]["type"], error.request_id]
print(json.dumps([streamed.model_dump(), events, whole.model_dump(), counted.input_tokens, models, refused], default=str))
"""


@needs_sdk
def test_the_official_sdk(tmp_path: Path) -> None:
    script = [{"reasoning": "Hm."}, {"content": "I look."}, *call(0, "look", at="it")]

    async def work() -> None:
        async with pair(engine_of(lambda _: script), keys=(("sdk", "KEY"),), environ={"KEY": KEY}) as bridge:
            process = await asyncio.create_subprocess_exec(
                PYTHON, "-c", SDK, f"http://127.0.0.1:{bridge.port}", KEY, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(process.communicate(), 60)
            streamed, events, whole, counted, models, refused = json.loads(out)
            assert [block["type"] for block in streamed["content"]] == ["thinking", "text", "tool_use"]
            assert streamed["content"][2]["input"] == {"at": "it"} and streamed["content"][0]["signature"]
            assert streamed["stop_reason"] == "tool_use" and streamed["usage"]["cache_read_input_tokens"] == 16
            assert events[0] == "message_start" and events[-1] == "message_stop"
            assert whole["content"][0]["text"] == "I look." and counted == 1200 and models == ["served/name"]
            assert refused[:2] == [401, "authentication_error"] and refused[2].startswith("req_")

    asyncio.run(asyncio.wait_for(work(), 90))
