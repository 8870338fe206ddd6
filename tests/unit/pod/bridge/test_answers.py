"""Streams and whole answers: what the recorded cases do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pod.bridge import answers, errors
from pod.bridge.events import MessageStream
from pod.bridge.native import NativeStream, mended_message
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, Block, call, calling, chunk, reason, run
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import Clock


@pytest.mark.parametrize(
    ("finish", "more", "stop", "sequence"),
    [
        ("stop", {}, "end_turn", None),
        ("stop", {"stop_reason": "END"}, "stop_sequence", "END"),
        ("stop", {"stop_reason": "<eot>"}, "end_turn", None),
        ("stop", {"stop_reason": 7}, "end_turn", None),
        ("length", {}, "max_tokens", None),
        ("tool_calls", {}, "end_turn", None),
        ("content_filter", {}, "refusal", None),
        ("repetition", {}, "end_turn", None),
        ("odd", {}, "end_turn", None),
    ],
)
def test_stop_reasons(finish: str, more: dict[str, Any], stop: str, sequence: str | None) -> None:
    turn = Turn("m", max_tokens=100, stop_sequences=("END",))
    _, ending, stream = run(chunk({"content": "x"}), chunk({}, finish, **more), DONE, turn=turn)
    assert ending["delta"] == {"stop_reason": stop, "stop_sequence": sequence}
    assert bool(stream.notes) == (finish in ("repetition", "odd"))


def test_a_full_window_is_told_from_max_tokens() -> None:
    turn = Turn("m", max_tokens=100, window=50)
    _, ending, _ = run(chunk({"content": "x"}), chunk({}, "length", {"prompt_tokens": 40, "completion_tokens": 10}), DONE, turn=turn)
    assert reason(ending) == "model_context_window_exceeded"


def test_reasoning_cut_off_by_max_tokens_is_not_repeated() -> None:
    blocks, ending, _ = run(chunk({"reasoning": "so far"}), chunk({}, "length"), DONE)
    assert (blocks, reason(ending)) == ([["thinking", "so far"]], "max_tokens")


def test_white_space_opens_no_block_of_its_own() -> None:
    blocks, _, _ = run(
        chunk({"reasoning": "hm"}), chunk({"content": "\n\n"}), calling(call(0, "a", "run", "{}")), chunk({}, "tool_calls"), DONE
    )
    assert [block[0] for block in blocks] == ["thinking", "tool_use"]
    assert run(chunk({"content": "\n"}), chunk({"content": "hi"}), chunk({}, "stop"), DONE)[0] == [["text", "\nhi"]]
    assert run(chunk({"content": "\n"}), chunk({}, "stop"), DONE)[0] == [["text", "\n"]]


def test_the_same_piece_twice_under_one_key_is_said_twice() -> None:
    assert run(chunk({"reasoning": "ha"}), chunk({"reasoning": "ha"}), chunk({"content": "x"}), chunk({}, "stop"), DONE)[0][0] == [
        "thinking",
        "haha",
    ]
    assert run(chunk({"reasoning": "ha", "reasoning_content": "ha"}), chunk({"content": "x"}), chunk({}, "stop"), DONE)[0][0] == [
        "thinking",
        "ha",
    ]


def test_usage_of_a_prompt_from_the_cache() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}}
    _, ending, _ = run(chunk({"content": "x"}), chunk({}, "stop", usage), DONE)
    assert ending["usage"] == {"input_tokens": 36, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 64, "output_tokens": 3}


def test_usage_that_is_no_number_falls_back() -> None:
    assert answers.usage_of({"prompt_tokens": None, "completion_tokens": -1}, Turn("m", estimate=7), 4) == answers.Usage(7, 4, None)
    assert answers.usage_of({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, Turn("m")).final()["input_tokens"] == 0


def test_updates_come_every_half_second_and_only_when_something_came() -> None:
    clock = Clock()
    stream = MessageStream(Turn("m"), "msg_1", usage_s=0.5, clock=clock)
    out: list[bytes] = []
    for i in range(40):
        out += stream.feed(chunk({"content": "x"}, None, {"prompt_tokens": 5, "completion_tokens": i}))
        clock.now += 0.125
    updates = [delta["usage"]["output_tokens"] for delta in judged(b"".join(out) + b"".join(stream.fail(errors.empty()))).deltas]
    assert updates == list(range(4, 40, 4))
    quiet = MessageStream(Turn("m"), "msg_1", usage_s=0, clock=clock)
    assert not any(b"message_delta" in frame for i in range(40) for frame in quiet.feed(chunk({"content": "x"})))


def test_begin_gives_the_estimate_and_once() -> None:
    stream = MessageStream(Turn("m", estimate=123), "msg_1")
    (start,) = stream.begin()
    assert b'"input_tokens":123' in start
    assert stream.begin() == []
    assert b"message_start" not in b"".join(stream.feed(chunk({"content": "x"})))


def test_beats_before_in_and_between_blocks() -> None:
    stream = MessageStream(Turn("m"), "msg_1")
    assert [frame[:12] for frame in stream.beat()] == [b"event: ping\n"]
    stream.begin()
    assert b"message_delta" in stream.beat()[1]
    stream.feed(chunk({"reasoning": "x"}))
    assert b'"thinking_delta","thinking":""' in stream.beat()[1]
    stream.fail(errors.cut_off())
    assert stream.beat() == []


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"error":{"message":"no","type":"NotFoundError","code":404}}', 404, "not_found_error"),
        (b"<html><h1>Bad gateway</h1></html>", 502, "api_error"),
        (b'{"object":"error","message":"boom"}', 500, "api_error"),
        (b"", 502, "api_error"),
        (b"data: [DONE]\n\n", 502, "api_error"),
        (b'data: {"error":{"message":"later","type":"BadRequestError","code":400}}\n\n', 400, "invalid_request_error"),
        (b"event: error\ndata: boom\n\n", 502, "api_error"),
        (b'data: {"choices": [\n\n', 502, "api_error"),
    ],
)
def test_what_is_no_answer_becomes_an_error_with_a_status(body: bytes, status: int, kind: str) -> None:
    _, _, stream = run(body)
    assert stream.failure is not None
    assert (stream.failure.status, stream.failure.kind, stream.started) == (status, kind, False)


def test_an_overflow_inside_a_stream_is_told_in_the_clients_words() -> None:
    text = (
        "This model's maximum context length is 100 tokens. However, you requested 5 output "
        "tokens and your prompt contains 120 input tokens, for a total of 125 tokens."
    )
    _, _, stream = run(b'data: {"error":{"message":%s,"code":400}}\n\n' % json.dumps(text).encode())
    assert stream.failure is not None
    assert stream.failure.message == f"prompt is too long: 120 tokens > 100 maximum\n{text}"


def test_a_whole_answer_where_a_stream_was_asked_for() -> None:
    body = {
        "choices": [
            {
                "message": {"content": "hi", "tool_calls": [{"id": "a", "function": {"name": "run", "arguments": '{"x":1}'}}]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    blocks, ending, _ = run(json.dumps(body).encode())
    assert blocks == [["text", "hi"], ["tool_use", "run", {"x": 1}]]
    assert ending["usage"]["input_tokens"] == 5


def test_an_error_beside_a_choice_is_an_error() -> None:
    _, _, stream = run(
        b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"gone","code":503}}\n\n', DONE
    )
    assert stream.failure is not None
    assert (stream.failure.status, stream.failure.message) == (503, "gone")


def test_chunks_without_content_are_passed_over() -> None:
    assert run(
        b'data: {"choices":[]}\n\n',
        b": beat\n\n",
        b"data: tick\n\n",
        chunk({"content": None, "tool_calls": None}),
        chunk({"content": "x"}),
        chunk({}, "stop"),
        DONE,
    )[0] == [["text", "x"]]


def test_the_end_counts_without_done_and_with_text_after_the_finish() -> None:
    assert reason(run(chunk({"content": "x"}, "stop"))[1]) == "end_turn"
    assert run(chunk({"content": "a"}, "stop"), chunk({"content": "b"}), DONE)[0] == [["text", "ab"]]


def test_nothing_follows_the_end() -> None:
    stream = MessageStream(Turn("m"), "msg_1")
    stream.feed(chunk({"content": "x"}, "stop") + DONE)
    assert stream.done
    assert stream.feed(chunk({"content": "y"})) == stream.flush() == stream.fail(errors.empty()) == []


def native(*events: dict[str, Any]) -> tuple[list[Block], dict[str, Any], NativeStream]:
    stream = NativeStream(Turn("claude-x", max_tokens=9), "msg_1", usage_s=0)
    data = b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events)
    judge = judged(b"".join(stream.feed(data) + stream.flush()))
    assert judge.faults == []
    return (
        [[b["type"], b.get("text") or b.get("thinking") or b.get("input")] for b in judge.blocks],
        judge.deltas[-1] if judge.deltas else {},
        stream,
    )


START = {
    "type": "message_start",
    "message": {"id": "x", "model": "served", "usage": {"input_tokens": 30, "output_tokens": 0, "cache_read_input_tokens": 70}},
}


def test_native_streams_get_signatures_usage_and_stop_reasons() -> None:
    blocks, ending, _ = native(
        START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "run"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 4}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    assert blocks == [["thinking", "hm"], ["tool_use", {"x": 1}]]
    assert ending["delta"]["stop_reason"] == "tool_use"
    assert ending["usage"] == {"input_tokens": 30, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 70, "output_tokens": 4}


def test_a_native_call_that_was_cut_off_is_not_shown() -> None:
    blocks, ending, _ = native(
        START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "run", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"x":'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    assert (blocks, reason(ending)) == ([], "max_tokens")


def test_native_errors_get_a_known_type() -> None:
    _, _, stream = native(START, {"type": "error", "error": {"type": "internal_error", "message": "boom"}})
    assert stream.failure is not None
    assert (stream.failure.kind, stream.failure.message) == ("api_error", "boom")


def test_whole_native_messages() -> None:
    data = {
        "id": "x",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    message, _ = mended_message(data, Turn("claude-x", stop_sequences=("END",)), "msg_1")
    assert (message["id"], message["model"], message["stop_reason"], message["stop_sequence"]) == (
        "msg_1",
        "claude-x",
        "stop_sequence",
        "END",
    )
    assert message["content"][0]["signature"]
    with pytest.raises(errors.ApiError):
        mended_message({"type": "error", "error": {"type": "NotFoundError", "message": "no"}}, Turn("m"), "msg_1")


def test_whole_answers_with_errors_and_without_messages() -> None:
    for data in ({"error": {"message": "x"}}, {"choices": []}, [], None, {"choices": [{"message": {}, "finish_reason": "abort"}]}):
        with pytest.raises(errors.ApiError):
            answers.message_of(data, Turn("m"), "msg_1")
