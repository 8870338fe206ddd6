"""Thinking that a client does not want to read: it is left out of the answer and still comes back with the history."""

from __future__ import annotations

import base64
import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.bridge.events import MessageStream
from pod.bridge.native import NativeStream, mended_message
from pod.bridge.signatures import MAX_CARRIED, carried_by, carrying, signature_of
from pod.bridge.translate import completion_message
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk
from tests.unit.pod.bridge.legal import frames_of, judged
from tests.unit.pod.bridge.play import Clock
from tests.unit.pod.bridge.test_requests import RUN, messages_of, result, translated, use

UNREAD = Turn("m", max_tokens=100, omits_thinking=True)
THOUGHT = "Let me see: 😀 first\nthen."


def streamed(turn: Turn, *pieces: bytes) -> bytes:
    stream = MessageStream(turn, "msg_1", usage_s=0, clock=Clock())
    return b"".join(frame for piece in pieces for frame in stream.feed(piece)) + b"".join(stream.flush())


def thinks_and_calls() -> tuple[bytes, ...]:
    halves = [chunk({"reasoning": THOUGHT[:5]}), chunk({"reasoning": THOUGHT[5:]})]
    return (*halves, calling(call(0, "c1", "run", '{"cmd":"ls"}')), chunk({"content": "done"}, "stop"), DONE)


@pytest.mark.parametrize(("display", "omitted"), [("omitted", True), ("updates", True), ("summarized", False), (None, False), (7, False)])
def test_who_asks_for_it(display: Any, omitted: bool) -> None:
    made = translated(thinking={"type": "enabled", "budget_tokens": 2000, "display": display})
    assert made.turn.omits_thinking is omitted
    assert "display" not in made.body.get("chat_template_kwargs", {})


@pytest.mark.parametrize("pieces", [thinks_and_calls(), (chunk({"reasoning": THOUGHT}), chunk({"content": "x"}, "stop"), DONE)])
def test_a_stream_has_the_block_without_its_text(pieces: tuple[bytes, ...]) -> None:
    made = streamed(UNREAD, *pieces)
    judge = judged(made)
    assert judge.faults == [] and b"see" not in made
    assert judge.blocks[0]["type"] == "thinking" and judge.blocks[0]["thinking"] == ""
    assert [data["delta"]["type"] for name, data in frames_of(made) if name == "content_block_delta" and data["index"] == 0] == ["signature_delta"]
    assert carried_by(judge.blocks[0]["signature"]) == THOUGHT
    again = judged(streamed(Turn("m"), *pieces))  # read by others as it was
    assert again.blocks[0]["thinking"] == THOUGHT and again.blocks[0]["signature"] == signature_of(THOUGHT)


def test_it_is_heard_of_while_it_thinks() -> None:
    stream = MessageStream(UNREAD, "msg_1", clock=Clock())
    begun = b"".join(stream.feed(chunk({"reasoning": THOUGHT})))
    assert b"content_block_start" in begun
    beat = frames_of(b"".join(stream.beat()))
    assert [name for name, _ in beat] == ["ping", "content_block_delta"] and beat[1][1]["delta"] == {"type": "thinking_delta", "thinking": ""}


def test_native_streams_and_whole_answers() -> None:
    native = NativeStream(UNREAD, "msg_1", usage_s=0, clock=Clock())
    strict = streamed(Turn("m"), *thinks_and_calls())
    judge = judged(b"".join(native.feed(strict)) + b"".join(native.flush()))
    assert judge.faults == [] and judge.blocks[0]["thinking"] == "" and carried_by(judge.blocks[0]["signature"]) == THOUGHT
    answer = {"choices": [{"message": {"reasoning": THOUGHT, "content": "x"}, "finish_reason": "stop"}]}
    ours = {"content": [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    for message, _ in (completion_message(answer, UNREAD, "msg_1"), mended_message(ours, UNREAD, "msg_1")):
        assert message["content"] == [{"type": "thinking", "thinking": "", "signature": carrying(THOUGHT)}, {"type": "text", "text": "x"}]
    plain = judged(streamed(UNREAD, b'{"choices":[{"message":{"reasoning":"abc","content":"x"},"finish_reason":"stop"}]}'))
    assert plain.faults == [] and carried_by(plain.blocks[0]["signature"]) == "abc"


def test_an_answer_of_nothing_but_thoughts_is_still_repeated() -> None:
    judge = judged(streamed(UNREAD, chunk({"reasoning": "only this"}, "stop"), DONE))
    assert judge.blocks[0]["thinking"] == "" and "only this" in judge.blocks[1]["text"]
    message, _ = completion_message({"choices": [{"message": {"reasoning": "only this"}, "finish_reason": "stop"}]}, UNREAD, "msg_1")
    assert "only this" in message["content"][1]["text"]


def test_the_history_has_the_thoughts_again() -> None:
    block = {"type": "thinking", "thinking": "", "signature": carrying(THOUGHT)}
    found = messages_of(("user", "hi"), ("assistant", [block, use("c1")]), ("user", [result("c1", "ok")]), tools=[RUN])
    assert found[1]["reasoning"] == THOUGHT
    for foreign in ("EqRkabc", "podwright.1.!!", "podwright.1." + base64.b64encode(b"no").decode(), 5, None):
        found = messages_of(("user", "hi"), ("assistant", [{**block, "signature": foreign}, use("c1")]), ("user", [result("c1", "ok")]), tools=[RUN])
        assert "reasoning" not in found[1]


def test_a_signature_cannot_unpack_to_more_than_anybody_thinks() -> None:
    assert carried_by(carrying("a" * MAX_CARRIED)) == "a" * MAX_CARRIED
    assert carried_by(carrying("a" * (MAX_CARRIED + 1))) == ""
    cut = base64.b64encode(zlib.compress(random.Random(1).randbytes(999))[:-9]).decode()
    assert carried_by("podwright.1." + cut) == ""


@given(st.text())
def test_what_is_carried_comes_back(text: str) -> None:
    assert carried_by(carrying(text)) == text.encode("utf-8", "replace").decode()
    assert carrying(text).isascii()


@given(st.text())
def test_no_other_signature_carries_anything(text: str) -> None:
    assert carried_by(text) == "" and carried_by(signature_of(text)) == ""
