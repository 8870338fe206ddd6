"""The official SDKs as clients of a running bridge: every recorded case over real sockets, and the calls of everyday use.

Needs `sdk/` and `sdk-node/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_client.sh` makes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from pod.bridge import translate

from tests.unit.pod.bridge.claude import KEY, NODE, PARTS
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import Bridge, Engine, Got, Peer, bridge_to, pair
from tests.unit.pod.bridge.play import Case, cases

HERE = Path(__file__).parent
CLIENTS = {
    "python": (PARTS / "sdk" / "bin" / "python", [str(PARTS / "sdk" / "bin" / "python"), str(HERE / "sdk_client.py")]),
    "node": (PARTS / "sdk-node" / "node_modules", [NODE, str(HERE / "sdk_client.mjs"), str(PARTS / "sdk-node")]),
}
PING_S, LONGEST_WAIT_S = 0.05, 0.12
pytestmark = pytest.mark.real_sdk


@pytest.fixture(params=CLIENTS)
def command(request: pytest.FixtureRequest) -> list[str]:
    needed, words = CLIENTS[request.param]
    if not needed.exists():
        pytest.skip(f"the official SDK is not installed: {needed} does not exist")
    return words


async def told_by(command: list[str], jobs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the SDK makes of each job."""
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    process = await asyncio.create_subprocess_exec(*command, str(file), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    out, problems = await asyncio.wait_for(process.communicate(), 240)
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == len(jobs), problems.decode()
    return lines


class Recorded(Engine):
    """Answers as a case recorded it, its pauses cut short."""

    def __init__(self, case: Case) -> None:
        answer = case.upstream_answer()

        async def plays(peer: Peer) -> None:
            if answer is not None:
                headers = "".join(f"{name}: {value}\r\n" for name, value in answer["headers"].items() if name.lower() not in ("content-type", "content-length"))
                peer.whole(answer["status"], answer["body"], headers)
                return
            peer.head()
            for step in case.script() or []:
                if isinstance(step, bytes):
                    peer.raw(step)
                else:
                    await asyncio.sleep(min(step, LONGEST_WAIT_S))
            peer.writer.write(b"0\r\n\r\n")

        super().__init__(v1__chat__completions=plays, v1__messages=plays)
        if answer is not None:
            self.answers["/tokenize"] = self.answers["/v1/messages/count_tokens"] = plays


def question(case: Case) -> dict[str, Any] | None:
    """The first exchange that reaches the engine."""
    for exchange, made in zip(case.posts(), case.translations(), strict=True):
        if isinstance(made, translate.Translation):
            return exchange
    return None


def playable() -> list[tuple[Case, dict[str, Any]]]:
    found = [(case, question(case)) for case in cases() if case.script() is not None or case.upstream_answer() is not None]
    return [(case, exchange) for case, exchange in found if exchange is not None]


@contextlib.asynccontextmanager
async def served(case: Case) -> AsyncIterator[Bridge]:
    engine = Recorded(case)
    port = await engine.start()
    settings = case.settings
    model = dataclasses.replace(settings.models[0], upstream=f"http://127.0.0.1:{port}")
    try:
        async with bridge_to(port, model=model, mode=settings.mode, thinking_budget=True, silence_s=30.0, ping_s=PING_S) as bridge:
            yield bridge
    finally:
        engine.close()


def job_of(exchange: dict[str, Any], port: int) -> dict[str, Any]:
    parts = urlsplit(exchange["path"])
    body = {key: value for key, value in exchange["body"].items() if key != "stream"}
    call = "count_tokens" if "count_tokens" in parts.path else "stream" if exchange["body"].get("stream") else "create"
    headers = {name: value for name, value in exchange.get("headers", {}).items() if name.lower().startswith("anthropic-")}
    return {"url": f"http://127.0.0.1:{port}", "key": "k", "call": call, "body": body, "query": dict(parse_qsl(parts.query)), "headers": headers}


def shape(block: dict[str, Any]) -> tuple[str, Any]:
    kind: str = block["type"]
    return kind, block["input"] if kind == "tool_use" else block.get("text") or block.get("thinking")


def agree(case: str, raw: Got, told: dict[str, Any]) -> None:
    """The SDK has what stands in the bytes."""
    assert "crash" not in told, (case, told)
    if not raw.headers["content-type"].startswith("text/event-stream"):
        data = raw.json
        if raw.status != 200:
            assert (told["status"], told["body"]["error"]) == (raw.status, data["error"]), case
        elif "input_tokens" in data:
            assert told == data, case
        else:
            assert [shape(b) for b in told["message"]["content"]] == [shape(b) for b in data["content"]], case
            assert told["message"]["stop_reason"] == data["stop_reason"] and data["usage"].items() <= told["message"]["usage"].items(), case
        return
    judge = judged(raw.body)
    assert judge.faults == [], (case, judge.faults)
    if judge.error:
        assert told["body"]["error"] == judge.error, case
        return
    message = told["message"]
    assert [shape(b) for b in message["content"]] == [shape(b) for b in judge.blocks], case
    assert message["stop_reason"] == judge.deltas[-1]["delta"]["stop_reason"], case
    assert judge.deltas[-1]["usage"].items() <= message["usage"].items(), case


def test_every_case_over_a_socket(command: list[str], tmp_path: Path) -> None:
    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            raws, jobs, ids = [], [], []
            for case, exchange in playable():
                bridge = await stack.enter_async_context(served(case))
                headers = {name: value for name, value in exchange.get("headers", {}).items() if name.lower().startswith("anthropic-")}
                raws.append(await asyncio.wait_for(bridge.ask("POST", exchange["path"], exchange["body"], headers), 30))
                jobs.append(job_of(exchange, bridge.port))
                ids.append(case.id)
            told = await told_by(command, jobs, tmp_path)
        assert len(jobs) > 80 and {job["call"] for job in jobs} == {"stream", "create", "count_tokens"}
        assert sum(b"event: ping" in raw.body for raw in raws) >= 5
        for case_id, raw, one in zip(ids, raws, told, strict=True):
            agree(case_id, raw, one)

    asyncio.run(asyncio.wait_for(work(), 300))


TOOLS = [{"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}]
ASKED = {"model": "served/name", "max_tokens": 2000, "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}


def everyday(peer: Peer) -> None:
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    if not peer.asked.json.get("stream"):
        peer.whole(200, {"choices": [{"message": {"content": "I look.", "tool_calls": [first]}, "finish_reason": "tool_calls"}],
                         "usage": {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 16}}})  # fmt: skip
        return
    peer.head()
    for delta in ({"role": "assistant", "content": ""}, {"reasoning": "Hm."}, {"content": "I look."}, {"tool_calls": [first]}):
        peer.chunk(delta)
    peer.chunk({}, "tool_calls")
    peer.done()


def test_everyday_calls(command: list[str], tmp_path: Path) -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=everyday, tokenize=lambda peer: peer.whole(200, {"count": 1200}))
        async with pair(engine, keys=(("sdk", "KEY"),), environ={"KEY": KEY}) as bridge:
            base = {"url": f"http://127.0.0.1:{bridge.port}", "key": KEY, "query": {}, "headers": {}, "body": ASKED}
            thinking = {**ASKED, "thinking": {"type": "enabled", "budget_tokens": 1024}}
            counted = {key: value for key, value in ASKED.items() if key != "max_tokens"}
            jobs = [{**base, "call": "stream", "body": thinking}, {**base, "call": "create"}, {**base, "call": "count_tokens", "body": counted},
                    {**base, "call": "create", "key": "wrong"}]  # fmt: skip
            streamed, whole, count, refused = await told_by(command, jobs, tmp_path)
        blocks = streamed["message"]["content"]
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"] and blocks[0]["signature"] and blocks[2]["input"] == {"at": "it"}
        assert streamed["message"]["stop_reason"] == "tool_use" and streamed["message"]["usage"]["cache_read_input_tokens"] == 16
        assert streamed["kinds"][0] == "message_start" and streamed["kinds"][-1] == "message_stop"
        assert [shape(block) for block in whole["message"]["content"]] == [("text", "I look."), ("tool_use", {"at": "it"})]
        assert count == {"input_tokens": 1200}
        assert (refused["error"], refused["status"], refused["body"]["error"]["type"]) == ("AuthenticationError", 401, "authentication_error")
        assert refused["request_id"].startswith("req_") and {line["client"] for line in bridge.trace if line["status"] == 200} == {"sdk"}

    asyncio.run(asyncio.wait_for(work(), 60))
