"""What a tester found who knew the contract and not the code: each test is one kind of failure, seen from outside."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pod.bridge import count, errors
from pod.bridge.answers import message_of
from pod.bridge.calls import client_id, engine_id
from pod.bridge.errors import InvalidRequestError, from_event, from_upstream
from pod.bridge.events import MessageStream
from pod.bridge.models import Names
from pod.bridge.native import NativeStream, mended_message
from pod.bridge.stats import Record, Stats
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk, run
from tests.unit.pod.bridge.legal import frames_of, judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Asked, Engine, Got, Peer, pair
from tests.unit.pod.bridge.net import run as run_work
from tests.unit.pod.bridge.test_requests import RUN, SETTINGS, messages_of, translated

TOOL_ENDING = chunk({}, "tool_calls")


def arguments(*pieces: str) -> Any:
    parts = [calling(call(0, "a", "run", pieces[0])), *(calling(call(0, arguments=piece)) for piece in pieces[1:])]
    (block,), _, _ = run(*parts, TOOL_ENDING, DONE)
    return block[2]


# --- tool calls


@pytest.mark.parametrize("wanted", ["functions.run:0", "a b", "ünï", "x" * 300 + ".", "call/1"])
def test_an_id_that_clients_refuse_is_carried_and_comes_back(wanted: str) -> None:
    shown = client_id(wanted)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", shown)
    assert engine_id(shown) == wanted
    history = messages_of(
        ("user", "a"),
        ("assistant", [{"type": "tool_use", "id": shown, "name": "run", "input": {}}]),
        ("user", [{"type": "tool_result", "tool_use_id": shown, "content": "R"}]),
    )
    assert history[1]["tool_calls"][0]["id"] == history[2]["tool_call_id"] == wanted


@pytest.mark.parametrize("plain", ["call_1", "toolu_as_", "toolu_as_!", "toolu_as_a", "chatcmpl-tool-0f"])
def test_other_ids_stay_as_they_are(plain: str) -> None:
    assert engine_id(plain) == plain
    assert client_id("call_1") == "call_1"


def test_a_streamed_call_has_an_id_that_clients_take() -> None:
    (_,), _, stream = run(calling(call(0, "functions.run:0", "run", "{}")), TOOL_ENDING, DONE)
    assert stream.stop_reason == "tool_use"


def test_half_a_character_in_arguments_does_not_break_a_parser() -> None:
    for pieces in (('{"cmd":"\\ud83d"}',), ('{"cmd":"\\ud83d', '"}'), ('{"cmd":"\\ud83d"}', "</tool_call>")):
        assert arguments(*pieces) == {"cmd": "\ufffd"}
    assert arguments('{"cmd":"\\ud83d', '\\ude00"}') == {"cmd": "\U0001f600"}
    assert arguments('{"cmd":"\\\\ud83d"}') == {"cmd": "\\ud83d"}


def test_an_empty_object_that_stands_in_for_arguments_gives_way_to_them() -> None:
    assert arguments("{}", '{"cmd":', '"ls"}') == {"cmd": "ls"}
    assert arguments("{}", "{}") == {}
    assert arguments('{"cmd":"ls"}', "{}") == {"cmd": "ls"}


def test_a_name_with_white_space_around_it_is_the_tools_name() -> None:
    ((_, name, _),), _, _ = run(calling(call(0, "a", " run\n", "{}")), TOOL_ENDING, DONE)
    assert name == "run"


def test_the_trace_does_not_repeat_what_the_model_wrote() -> None:
    _, _, stream = run(calling(call(0, "a", "run", '{"secret words')), TOOL_ENDING, DONE)
    assert stream.notes and "secret" not in " ".join(stream.notes)


# --- streams


def text_in(*pieces: bytes) -> str:
    ((_, text),), _, _ = run(*pieces)
    assert isinstance(text, str)
    return text


def test_numbers_that_json_has_not_do_not_end_an_answer() -> None:
    odd = b'data: {"choices":[{"index":0,"delta":{"content":"b"},"logprobs":{"p":[NaN,-Infinity]},"finish_reason":null}]}\n\n'
    assert text_in(chunk({"content": "a"}), odd, chunk({}, "stop"), DONE) == "ab"


def test_chunks_without_a_blank_line_between_them_are_read_one_by_one() -> None:
    lines = b"".join(piece[:-1] for piece in (chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"), DONE))
    assert text_in(lines + b"\n") == "ab"
    pretty = b"".join(b"data: " + line + b"\n" for line in json.dumps(json.loads(chunk({"content": "c"})[6:]), indent=1).encode().split(b"\n"))
    assert text_in(pretty + b"\n", chunk({}, "stop"), DONE) == "c"


def test_an_event_of_the_engines_framework_is_an_error() -> None:
    _, _, stream = run(chunk({"content": "a"}), b'data: {"detail":"worker died"}\n\n', DONE)
    assert stream.failure is not None and stream.failure.message == "worker died"


def test_usage_that_was_lost_on_the_way_does_not_overwrite_what_was_known() -> None:
    known = {"prompt_tokens": 30, "completion_tokens": 3}
    lost = {"prompt_tokens": 0, "completion_tokens": 4, "total_tokens": 0}
    _, ending, _ = run(chunk({"content": "a"}, usage=known), chunk({}, "stop", usage=lost), DONE)
    assert (ending["usage"]["input_tokens"], ending["usage"]["output_tokens"]) == (30, 4)


def test_what_went_into_the_cache_is_told() -> None:
    details = {"cached_tokens": 60, "created_cache_tokens": 32}
    usage = {"prompt_tokens": 100, "completion_tokens": 3, "prompt_tokens_details": details}
    _, ending, _ = run(chunk({"content": "a"}), chunk({}, "stop", usage=usage), DONE)
    assert ending["usage"] == {"input_tokens": 8, "cache_creation_input_tokens": 32, "cache_read_input_tokens": 60, "output_tokens": 3}
    told = {"input_tokens": 8, "cache_creation_input_tokens": 32, "cache_read_input_tokens": 60, "output_tokens": 3}
    made, _ = mended_message({"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "usage": told}, Turn("m"), "msg_1")
    assert made["usage"] == told


@pytest.mark.parametrize("finish", ["max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS"])
def test_an_answer_that_ran_out_of_tokens_is_one_in_every_engines_words(finish: str) -> None:
    _, ending, _ = run(chunk({"content": "a"}), chunk({}, finish), DONE)
    assert ending["delta"]["stop_reason"] == "max_tokens"


def test_thinking_that_a_server_repeats_at_its_end_is_not_doubled() -> None:
    whole = "First this, and then that."
    pieces = [chunk({"reasoning": whole[:9]}), chunk({"reasoning": whole[9:]}), chunk({"reasoning": whole}), chunk({"content": "x"})]
    blocks, _, _ = run(*pieces, chunk({}, "stop"), DONE)
    assert blocks == [["thinking", whole], ["text", "x"]]
    blocks, _, _ = run(*[chunk({"reasoning": piece}) for piece in ("ha", "ha", "haha")], chunk({"content": "x"}), chunk({}, "stop"), DONE)
    assert blocks[0] == ["thinking", "hahahaha"]


def test_a_client_that_switched_thinking_off_gets_none_from_a_model_that_thinks_anyway() -> None:
    off = Turn("m", max_tokens=100, hides_thinking=True)
    assert translated(thinking={"type": "disabled"}, messages=[{"role": "user", "content": "a"}]).turn.hides_thinking
    blocks, _, _ = run(chunk({"reasoning": "hm"}), chunk({"content": "a"}), chunk({}, "stop"), DONE, turn=off)
    assert blocks == [["text", "a"]]
    ((kind, text),), _, _ = run(chunk({"reasoning": "the answer"}), chunk({}, "stop"), DONE, turn=off)
    assert kind == "text" and text.endswith("the answer")
    whole = {"choices": [{"message": {"reasoning": "hm", "content": "a"}, "finish_reason": "stop"}]}
    assert message_of(whole, off, "msg_1")[0]["content"] == [{"type": "text", "text": "a"}]
    native = NativeStream(off, "msg_1")
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 0}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    made = b"".join(frame for event in events for frame in native.feed(b"data: " + json.dumps(event).encode() + b"\n\n"))
    judge = judged(made)
    assert judge.faults == [] and [(block["type"], block["text"]) for block in judge.blocks] == [("text", "a")]


def test_one_call_that_is_not_in_a_list_is_a_call() -> None:
    blocks, ending, _ = run(chunk({"tool_calls": call(0, "a", "run", "{}")}), chunk({}, "tool_calls"), DONE)
    assert blocks == [["tool_use", "run", {}]] and ending["delta"]["stop_reason"] == "tool_use"


def test_an_id_that_an_earlier_call_has_is_not_given_twice() -> None:
    turn = Turn("m", max_tokens=100, known_calls=frozenset({"call_0"}))
    stream = MessageStream(turn, "msg_1")
    made = b"".join(stream.feed(calling(call(0, "call_0", "run", "{}")) + calling(call(1, "call_1", "run", "{}")) + TOOL_ENDING + DONE))
    ids = [data["content_block"]["id"] for name, data in frames_of(made) if name == "content_block_start"]
    assert ids[0].startswith("toolu_") and ids[1] == "call_1"
    history = [{"type": "tool_use", "id": "call_0", "name": "run", "input": {}}]
    made_turn = translated(messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": history}]).turn
    assert made_turn.known_calls == {"call_0"}


def test_the_trace_does_not_repeat_what_an_engine_repeats_of_the_prompt() -> None:
    lines: list[str] = []
    stats, record = Stats(lines.append), Record("POST")
    record.error = "1 validation error:\n  {'loc': ('messages', 0), 'msg': 'Input should be a string', 'input': [{'text': 'secret words'}]}"
    record.error_kind = "invalid_request_error"
    record.notes = [f"no count from the engine: {record.error}"]
    stats.finished(record, "req_1", 400)
    assert "Input should be a string" in lines[0] and "secret" not in lines[0] + str(stats.totals())


# --- errors

OVERFLOWS = [
    ("The prompt (total length 250000) is too long to fit into the model (context length 196608).", 250000, 0),
    ("Input length (250000) exceeds model's maximum context length (196608).", 250000, 0),
    ("You passed 250000 input tokens and requested 64000 output tokens. However, the model's context length is only 196608 tokens, "
     "resulting in a maximum input length of 132608 tokens.", 250000, 64000),
    ("The input (250000 tokens) is longer than the model's context length (196608 tokens).", 250000, 0),
    ("Requested token count exceeds the model's maximum context length of 196608 tokens. You requested a total of 250000 tokens: 186000 "
     "tokens from the input messages and 64000 tokens for the completion.", 186000, 64000),
    ("Prompt length 250000 exceeds maximum model length 196608", 250000, 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "prompt", "asked"), OVERFLOWS)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_an_overflow_by_any_engine_makes_the_client_compact(text: str, prompt: int, asked: int, status: int) -> None:
    found = errors.overflow_of(text)
    assert found is not None
    assert (found.window, found.prompt, found.asked) == (196608, prompt, asked)
    told = from_upstream(status, {}, json.dumps({"error": {"message": text}}).encode())
    assert told.status == 400
    assert re.match(r"prompt is too long: 250000 tokens > 196608 maximum\n|input length and `max_tokens` exceed context limit: 186000 \+ 64000 > 196608\n",
                    told.message)  # fmt: skip
    assert text in told.message


@pytest.mark.parametrize(
    "text", ["served/name is not a multimodal model", "At most 0 image(s) may be provided in one prompt.", "cannot identify image file <_io.BytesIO>"]
)
def test_a_refused_image_is_told_in_the_words_that_take_it_out_of_the_conversation(text: str) -> None:
    told = from_upstream(400, {}, json.dumps({"error": {"message": text}}).encode())
    assert told.message == f"Could not process image: {text}"


@pytest.mark.parametrize(
    ("headers", "delay"),
    [({"retry-after": "7"}, "7"), ({"retry-after": "1.5"}, "1.5"), ({"retry-after": "soon"}, 5), ({"retry-after": "-5"}, 5), ({}, 5),
     ({"retry-after-ms": "2500"}, 3), ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "Wed, 21 Oct 2026 07:28:00 GMT")],
)  # fmt: skip
def test_a_delay_that_clients_understand_is_kept_and_another_one_replaced(headers: dict[str, str], delay: str | int) -> None:
    assert from_upstream(429, headers, b"busy").retry_after == delay


def test_an_engine_that_says_whether_to_retry_is_believed() -> None:
    assert from_upstream(429, {"x-should-retry": "false"}, b"never").should_retry is False
    assert from_upstream(400, {"x-should-retry": "true"}, b"again").should_retry is True
    assert from_upstream(500, {"x-should-retry": "true"}, b"again").should_retry is True
    assert from_upstream(429, {"x-should-retry": "perhaps"}, b"busy").should_retry is True


@pytest.mark.parametrize(
    ("code", "kind"),
    [("429", "rate_limit_error"), ("context_length_exceeded", "invalid_request_error"), ("rate_limit_exceeded", "rate_limit_error"),
     (503, "overloaded_error"), ("", "api_error"), (None, "api_error"), (True, "api_error"), ("overloaded", "overloaded_error")],
)  # fmt: skip
def test_an_error_event_keeps_its_kind_however_it_is_coded(code: object, kind: str) -> None:
    assert from_event({"error": {"message": "no", "code": code}}).kind == kind


def test_the_words_of_an_error_of_no_known_shape_are_kept() -> None:
    assert "WHY" in from_upstream(400, {}, b'{"error":{"message":null,"metadata":{"raw":"WHY"}}}').message
    assert from_upstream(400, {}, b"{}").message == "The engine answered with status 400."


def test_a_key_that_a_gateway_repeats_is_not_handed_on() -> None:
    key = "sk-ant-api03-" + "A1b2" * 8
    for told in (from_upstream(400, {}, f"bad key {key}".encode()), from_event({"error": {"message": f"bad key {key}"}})):
        assert told.message == "bad key [redacted]"
    assert "hf-internal-testing/tiny" in from_upstream(400, {}, b"hf-internal-testing/tiny is no model").message


# --- requests


def image(**source: Any) -> list[dict[str, Any]]:
    return [{"type": "image", "source": source}]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y.png", "/etc/passwd", "data:text/html;base64,AA"])
def test_an_engine_is_not_sent_to_files_of_its_own(url: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\.0\.content\.0\.image\.source\.url: Could not process image"):
        messages_of(("user", image(type="url", url=url)))


def test_an_inline_image_is_mended_or_refused_by_name() -> None:
    for data in ("data:image/png;base64,iVBO", "iV\nBO"):
        (message,) = messages_of(("user", image(type="base64", media_type="image/png", data=data)))
        assert message["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBO"
    with pytest.raises(InvalidRequestError, match=r"messages\.0\.content\.0\.image\.source\.base64\.media_type"):
        messages_of(("user", image(type="base64", media_type="text/html", data="iVBO")))


def test_a_refused_document_in_a_tool_result_is_named_as_clients_look_for_it() -> None:
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/zip", "data": "UEsDBA=="}}
    with pytest.raises(InvalidRequestError) as caught:
        messages_of(
            ("user", "a"),
            ("assistant", [{"type": "tool_use", "id": "t", "name": "run", "input": {}}]),
            ("user", [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}, document]}]),
        )
    # Claude Code 2.1.197 looks for this, to take the block out and ask again.
    found = re.search(r"messages[.[](\d+)[\].]+content[.[](\d+)[\].]+(?:tool_result[.[]content[.[](\d+)[\].]+)?(image|document|pdf)", caught.value.message)
    assert found is not None
    assert found.groups() == ("2", "0", "1", "document")


def test_the_summary_of_a_compacted_conversation_reaches_the_model() -> None:
    history = messages_of(("user", "a"), ("assistant", [{"type": "compaction", "content": "WE DID X"}]), ("user", "go on"))
    assert "WE DID X" in history[1]["content"]


def test_null_keys_of_a_schema_are_left_out() -> None:
    tool = {"name": "run", "input_schema": {"type": "object", "properties": {}, "required": None}}
    made = translated(messages=[{"role": "user", "content": "a"}], tools=[tool]).body["tools"][0]["function"]
    assert made["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("kind", ["none", "auto", "any"])
def test_a_count_has_the_tools_that_the_prompt_will_have(kind: str) -> None:
    body: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "hi"}], "tools": [RUN], "tool_choice": {"type": kind}}
    counted = count.tokenize_request(body, SETTINGS, Names(SETTINGS.models)).body
    assert counted["tools"] == translated(**body).body["tools"]


# --- over sockets


def asked(answering: Any, *requests: tuple[str, Any, dict[str, str]], settings: dict[str, Any] | None = None, **routes: Any) -> list[Got]:
    """The answers to some POSTs (path, body, headers) of a bridge before an engine that answers /v1/chat/completions so."""
    got: list[Got] = []

    async def work() -> None:
        engine = Engine(v1__chat__completions=answering, **routes)
        async with pair(engine, **(settings or {})) as bridge:
            for path, body, headers in requests:
                got.append(await bridge.ask("POST", path, body, headers))
            seen.extend(engine.asked)

    seen: list[Asked] = []
    run_work(work())
    for item in got:
        item.headers["seen"] = json.dumps([asked_.headers for asked_ in seen if "/v1/chat" in asked_.path])
    return got


def test_a_stream_where_a_whole_answer_was_asked_for_is_gathered() -> None:
    def answering(peer: Peer) -> None:
        peer.head("application/json")
        peer.chunk({"reasoning": "r"})
        peer.chunk({"content": "a"})
        peer.chunk({"tool_calls": [call(0, "c", "run", '{"cmd":"ls"}')]})
        peer.chunk({}, "tool_calls")
        peer.done()

    (got,) = asked(answering, ("/v1/messages", REQUEST, {}))
    message = got.json
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][0]["signature"] and message["content"][2]["input"] == {"cmd": "ls"}
    assert message["stop_reason"] == "tool_use" and message["usage"]["cache_read_input_tokens"] == 16

    def failing(peer: Peer) -> None:
        peer.head()
        peer.raw(b'data: {"error":{"message":"gone","code":503}}\n\n')
        peer.writer.write(b"0\r\n\r\n")

    (got,) = asked(failing, ("/v1/messages", REQUEST, {}))
    assert (got.status, got.json["error"]["message"]) == (503, "gone")


def test_an_engine_that_refuses_the_clients_own_key_is_quoted_with_its_status() -> None:
    def answering(peer: Peer) -> None:
        peer.whole(401, {"error": {"message": "Unauthorized"}})

    (got,) = asked(answering, ("/v1/messages", REQUEST, {"x-api-key": "wrong"}))
    assert (got.status, got.json["error"]["type"]) == (401, "authentication_error")


def test_a_count_that_the_tokenizer_refuses_is_an_estimate() -> None:
    body = {**REQUEST, "messages": [{"role": "user", "content": "word " * 100}]}
    (got,) = asked(None, ("/v1/messages/count_tokens", body, {}), tokenize=lambda peer: peer.whole(400, {"error": {"message": "no template"}}))
    assert got.status == 200 and got.json["input_tokens"] >= 100


def test_base_addresses_with_a_slash_or_a_version_too_much_work() -> None:
    paths = ("//v1/messages", "/v1/v1/messages?beta=true", "//v1/v1/messages", "//v1//messages")
    got = asked(lambda peer: peer.whole(200, {"choices": [{"message": {"content": "a"}}]}), *((path, REQUEST, {}) for path in paths))
    assert [item.status for item in got] == [200, 200, 200, 404]


def test_beta_names_in_several_lines_all_reach_the_engine() -> None:
    answering = lambda peer: peer.whole(200, {"choices": [{"message": {"content": "a"}}]})  # noqa: E731
    (got,) = asked(answering, ("/v1/messages", REQUEST, {"anthropic-beta": "a", "Anthropic-Beta": "b", "user-agent": "x "}))
    (headers,) = json.loads(got.headers["seen"])
    assert (headers["anthropic-beta"], headers["user-agent"]) == ("a,b", "x")


def test_a_relayed_stream_of_nothing_is_an_error() -> None:
    def answering(peer: Peer) -> None:
        peer.head()
        peer.writer.write(b"0\r\n\r\n")

    (got,) = asked(answering, ("/v1/chat/completions", STREAMED, {}))
    assert got.status == 502
    (got,) = asked(None, ("/v1/messages", STREAMED, {}), settings={"mode": "keepalive"}, v1__messages=answering)
    assert (got.status, got.json["error"]["type"]) == (502, "api_error")
