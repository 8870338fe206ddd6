"""Each recorded case once more, over real sockets: what leaves the bridge is what its core made, with status and headers.

Pauses are a hundred times shorter than recorded, and so are the bridge's own times.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import Engine, Got, Peer, bridge_to, run
from tests.unit.pod.bridge.play import Case, cases
from tests.unit.pod.bridge.test_cases import without_pings_and_updates

FASTER = 100.0
LONGEST_S = 1.5
ALL = cases()
STREAMED = [case for case in ALL if case.file("expected.sse").exists()]
ANSWERED = [case for case in ALL if case.upstream_answer() and case not in STREAMED]
OTHERS = [case for case in ALL if case.posts() and case not in STREAMED + ANSWERED]


class Played(Engine):
    """An engine that plays one case: the whole answer first where there are both."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.answers.update(dict.fromkeys(("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"), self.answer))
        self.answer_left = case.upstream_answer()

    async def answer(self, peer: Peer) -> None:
        whole, script = self.answer_left, self.case.script()
        if whole is not None:
            self.answer_left = whole if script is None else None
            headers = "".join(f"{name}: {value}\r\n" for name, value in whole["headers"].items() if name != "content-type")
            peer.whole(whole["status"], whole["body"], headers)
            return
        peer.head("text/plain" if self.case.id == "sse-08" else "text/event-stream")
        for step in script or []:
            if isinstance(step, bytes):
                peer.raw(step)
                await peer.writer.drain()
            else:
                await asyncio.sleep(min(step / FASTER, LONGEST_S + 0.5))
        if self.case.about.get("close") == "reset":
            peer.writer.transport.abort()
        elif self.case.about.get("close") == "clean":
            peer.writer.close()
        else:
            peer.writer.write(b"0\r\n\r\n")


async def asked(case: Case) -> tuple[list[Got], Played, list[dict[str, Any]]]:
    """The answers to a case's requests, what the engine was asked, and the trace."""
    engine = Played(case)
    port = await engine.start()
    settings = case.settings
    model = settings.models[0].__class__(**{**vars(settings.models[0]), "upstream": f"http://127.0.0.1:{port}"})
    is_slow = any(isinstance(step, float) for step in case.script() or [])
    try:
        async with bridge_to(port, model=model, mode=settings.mode, thinking_budget=True, ping_s=settings.ping_s / (FASTER if is_slow else 1),
                             silence_s=min(settings.silence_s / FASTER, LONGEST_S) if case.about.get("silence_s") else 30.0) as bridge:  # fmt: skip
            posts = case.posts()
            return [await bridge.ask("POST", one["path"], one["body"], one.get("headers")) for one in posts], engine, bridge.trace
    finally:
        engine.close()


def told(got: Got) -> bytes:
    """The body with the ids of the recorded run."""
    return got.body.replace(got.headers["request-id"].removeprefix("req_").encode(), b"0001")


def comparable(stream: bytes) -> list[Any]:
    """The frames, but for what a clock or another request of the case makes different: times in errors, and the start's estimate."""
    frames = without_pings_and_updates(stream)
    return [data["error"]["type"] if name == "error" else (name, data) for name, data in frames if name != "message_start"]


def wanted(case: Case) -> list[Any]:
    expected = json.loads(case.file("expected_request.json").read_text())
    return expected if isinstance(expected, list) else [expected]


@pytest.mark.parametrize("case", STREAMED, ids=[case.id for case in STREAMED])
def test_a_stream_arrives_as_it_was_made(case: Case) -> None:
    async def work() -> None:
        answers, engine, trace = await asked(case)
        expected = comparable(case.file("expected.sse").read_bytes())
        failure = case.wants.get("failure")
        for got, request, exchange, line in zip(answers, wanted(case), case.posts(), trace, strict=True):
            if request.get("type") == "error":
                assert got.status == 400 and got.json["error"] == request["error"]
            elif got.status != 200:
                assert failure is not None and (got.status, got.json["error"]["type"]) == (failure["status"], failure["kind"])
                assert expected == [failure["kind"]]
            else:
                judge = judged(got.body)
                assert judge.faults == [] and comparable(told(got)) == expected
                assert judge.start is not None and judge.start["model"] == exchange["body"]["model"]
                assert judge.start["usage"].keys() - {"input_tokens"} <= {"output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
                assert judge.start["usage"]["input_tokens"] > 0
                # Before the first frame it is message_start that breaks the silence.
                assert judge.pings >= case.wants.get("pings", 1) - 1
                assert got.headers["content-type"] == "text/event-stream; charset=utf-8" and got.headers["x-accel-buffering"] == "no"
                assert not {"content-length", "content-encoding"} & got.headers.keys()
                assert line.get("engine_request", "chatcmpl-1") == "chatcmpl-1"
        sent = [one.json for one in engine.asked if one.method == "POST"]
        made = [request for request in wanted(case) if request.get("type") != "error"]
        assert sent == made or case.id == "rf-05"

    run(work())


@pytest.mark.parametrize("case", ANSWERED, ids=[case.id for case in ANSWERED])
def test_a_whole_answer_arrives_as_it_was_made(case: Case) -> None:
    async def work() -> None:
        answers, engine, _ = await asked(case)
        expected = json.loads(case.file("expected.json").read_text())
        status, body = expected.get("status", 200), expected.get("body", {key: value for key, value in expected.items() if key != "notes"})
        for got, exchange in zip(answers, case.posts(), strict=True):
            if "count_tokens" in exchange["path"] and "input_tokens" not in body:
                assert got.json["input_tokens"] > 0
                continue
            assert got.status == status
            data = json.loads(told(got))
            assert (data.pop("request_id", None) is not None) is (status != 200)
            assert data == body
            assert expected.get("headers", {}).items() <= got.headers.items()
        assert [one.json for one in engine.asked if one.method == "POST"][: len(answers)] == wanted(case)

    run(work())


@pytest.mark.parametrize("case", OTHERS, ids=[case.id for case in OTHERS])
def test_what_has_no_recorded_answer(case: Case) -> None:
    """Refusals never reach the engine; counts are estimated where it cannot count; the rest gets an answer."""

    async def work() -> None:
        answers, engine, _ = await asked(case)
        for got, request, exchange in zip(answers, wanted(case), case.posts(), strict=True):
            if request.get("type") == "error":
                assert got.status == 400 and got.json["error"] == request["error"]
                assert not [one for one in engine.asked if one.method == "POST"]
            elif "count_tokens" in exchange["path"]:
                assert got.status == 200 and got.json["input_tokens"] >= case.wants.get("estimate_at_least", 1)
            else:
                assert got.status == 502  # this engine answers with an empty stream

    run(work())
