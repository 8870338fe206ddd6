"""Whatever upstream or a client sends: a legal stream, a legal error, or a refusal that names its place. Never an exception."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pod.bridge import count, errors, native, translate
from pod.bridge.codec import loads
from pod.bridge.events import MessageStream
from pod.bridge.keepalive import PingStream
from pod.bridge.models import Names
from pod.bridge.native import NativeStream
from pod.bridge.settings import Model, Settings
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import Clock, cases

SETTINGS = Settings((Model(("served",), "http://127.0.0.1:1", context_window=1000, reasoning=True),), guard=True)
NAMES = Names(SETTINGS.models)
relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))

texts = st.one_of(st.text(max_size=12), st.sampled_from(["", " ", "\n", "{", "}", '{"a":1}', '{"a":', "\u2028", "\x85", "</think>", "END"]))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), texts)
junk = st.recursive(scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)), max_leaves=6)


@st.composite
def objects(draw: st.DrawFn, odd: int = 40, /, **fields: st.SearchStrategy[Any]) -> Any:
    """An object with these fields; one field in `odd` is junk, and as many are missing."""
    made = {}
    for key, value in fields.items():
        chance = draw(st.integers(0, 2 * odd))
        if chance != odd:
            made[key] = draw(junk if chance == odd + 1 else value)
    return made


names = st.sampled_from(["run", "run", "write", "read"])
tool_parts = objects(
    index=st.integers(0, 2),
    id=st.sampled_from(["a", "b", "c", None]),
    type=st.just("function"),
    function=objects(name=st.one_of(names, st.none()), arguments=texts),
)
deltas = st.one_of(
    objects(role=st.just("assistant"), content=texts),
    objects(content=texts),
    objects(content=texts),
    objects(reasoning=texts),
    objects(reasoning=texts, reasoning_content=texts),
    objects(tool_calls=st.lists(tool_parts, min_size=1, max_size=2)),
)
finishes = st.sampled_from([None] * 12 + ["stop", "length", "tool_calls", "odd", "abort"])
choices = objects(index=st.sampled_from([0, 0, 0, 1]), delta=deltas, stop_reason=st.sampled_from([None, "END", 7]), finish_reason=finishes)
usages = objects(
    prompt_tokens=st.integers(0, 2000),
    completion_tokens=st.integers(0, 50),
    prompt_tokens_details=objects(cached_tokens=st.integers(0, 3000)),
)
chunks = st.one_of(
    objects(choices=st.lists(choices, min_size=1, max_size=1), usage=st.none()),
    objects(choices=st.lists(choices, max_size=2), usage=usages),
)
native_blocks = st.one_of(
    objects(type=st.just("text"), text=texts),
    objects(type=st.just("thinking"), thinking=texts),
    objects(type=st.just("tool_use"), id=st.just("t"), name=names, input=st.just({})),
)
native_deltas = st.one_of(
    objects(type=st.just("text_delta"), text=texts),
    objects(type=st.just("thinking_delta"), thinking=texts),
    objects(type=st.just("input_json_delta"), partial_json=texts),
)
native_events = st.one_of(
    objects(type=st.just("message_start"), message=objects(usage=objects(input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)))),
    objects(type=st.just("content_block_start"), index=st.integers(0, 2), content_block=native_blocks),
    objects(type=st.just("content_block_delta"), index=st.integers(0, 2), delta=native_deltas),
    objects(type=st.just("content_block_stop"), index=st.integers(0, 2)),
    objects(type=st.just("message_delta"), delta=objects(stop_reason=st.sampled_from(["end_turn", "max_tokens", "odd"])), usage=usages),
    objects(type=st.sampled_from(["message_stop", "ping", "ping", "error"])),
)


def event(data: Any) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def upstreams(events: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    noise = st.one_of(st.binary(max_size=20), st.just(b": note\n\n"), st.binary(max_size=9).map(event))
    one = st.integers(0, 30).flatmap(lambda chance: noise if chance == 13 else events.map(event))
    ends = st.sampled_from([b"data: [DONE]\n\n", b"data: [DONE]\n\n", b"data: [DONE]", b"", b"\r\n"])
    return st.builds(lambda parts, end: b"".join(parts) + end, st.lists(one, max_size=12), ends)


recorded = st.builds(
    lambda data, at, new: data[: at % (len(data) + 1)] + new + data[at % (len(data) + 1) + len(new) // 2 :],
    st.sampled_from([case.file("upstream.sse").read_bytes() for case in cases() if case.file("upstream.sse").exists()]),
    st.integers(0, 5000),
    st.binary(max_size=8),
)


def fed(stream: Any, data: bytes, cuts: list[int]) -> bytes:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    out = [frame for a, b in itertools.pairwise(places) for frame in stream.feed(data[a:b])]
    return b"".join([*out, *stream.flush()])


turns = st.builds(
    Turn,
    model=st.just("m"),
    max_tokens=st.integers(1, 60),
    window=st.sampled_from([None, 40]),
    one_tool=st.booleans(),
    forced_tool=st.sampled_from([None, "run"]),
    guard=st.booleans(),
)


def check(kind: type[Any], turn: Turn, data: bytes, cuts: list[int]) -> None:
    stream = kind(turn, "msg_1", usage_s=0, clock=Clock())
    made = fed(stream, data, [])
    assert judged(made).faults == [], made
    assert stream.done
    assert (stream.failure is None) == (b"event: message_stop" in made)
    assert fed(kind(turn, "msg_1", usage_s=0, clock=Clock()), data, cuts) == made


@relaxed
@given(turns, st.one_of(upstreams(chunks), recorded, st.binary(max_size=60)), st.lists(st.integers(0, 3000), max_size=6))
def test_property_any_chat_stream_becomes_legal(turn: Turn, data: bytes, cuts: list[int]) -> None:
    check(MessageStream, turn, data, cuts)


@relaxed
@given(turns, upstreams(native_events), st.lists(st.integers(0, 3000), max_size=6))
def test_property_any_native_stream_becomes_legal(turn: Turn, data: bytes, cuts: list[int]) -> None:
    check(NativeStream, turn, data, cuts)


@relaxed
@given(upstreams(chunks), st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["begin", "beat", "tick", "fail"])), max_size=9))
def test_property_early_starts_and_beats_stay_legal(data: bytes, acts: list[tuple[int, str]]) -> None:
    clock = Clock()
    stream = MessageStream(Turn("m", max_tokens=9), "msg_1", usage_s=0.5, clock=clock)
    out: list[bytes] = []
    for size, act in acts:
        piece, data = data[:size], data[size:]
        out += stream.feed(piece)
        clock.now += 1
        if act == "begin":
            out += stream.begin()
        elif act == "beat":
            out += stream.beat()
        elif act == "fail":
            out += stream.fail(errors.silent(1))
    out += stream.feed(data) + stream.flush()
    assert judged(b"".join(out)).faults == []


@relaxed
@given(st.binary(min_size=1, max_size=80), st.lists(st.integers(0, 80), max_size=5))
def test_property_keepalive_changes_no_byte(data: bytes, cuts: list[int]) -> None:
    assert fed(PingStream(), data, cuts) == data


sources = st.one_of(
    objects(type=st.just("base64"), media_type=st.sampled_from(["image/png", "text/plain"]), data=st.just("AAAA")),
    objects(type=st.just("url"), url=st.just("https://a.test/")),
    objects(type=st.just("text"), data=texts),
    objects(type=st.just("file"), file_id=texts),
)
plain_blocks = st.one_of(
    objects(200, type=st.just("text"), text=texts),
    objects(200, type=st.just("image"), source=sources),
    objects(200, type=st.just("document"), title=texts, source=sources),
    objects(200, type=st.just("search_result"), title=texts, source=texts, content=st.just([{"type": "text", "text": "x"}])),
    objects(200, type=st.sampled_from(["tool_reference", "container_upload", "new_thing", "mcp_tool_use"]), name=texts, input=junk),
)
ids = st.sampled_from(["t1", "t2", "t3"])
user_blocks = st.one_of(
    plain_blocks,
    objects(
        200,
        type=st.just("tool_result"),
        tool_use_id=ids,
        is_error=st.booleans(),
        content=st.one_of(texts, st.none(), st.lists(st.one_of(plain_blocks, st.lists(plain_blocks, max_size=2)), max_size=2)),
    ),
)
assistant_blocks = st.one_of(
    objects(200, type=st.just("text"), text=texts),
    objects(200, type=st.just("thinking"), thinking=texts, signature=texts),
    objects(200, type=st.just("redacted_thinking"), data=texts),
    objects(200, type=st.just("tool_use"), id=ids, name=names, input=st.dictionaries(texts, junk, max_size=2)),
    objects(200, type=st.just("server_tool_use"), name=texts, input=junk),
    objects(200, type=st.just("web_search_tool_result"), content=junk),
)
messages = st.one_of(
    objects(200, role=st.sampled_from(["user", "ctx"]), content=st.one_of(texts, st.lists(user_blocks, max_size=3))),
    objects(200, role=st.just("assistant"), content=st.one_of(texts, st.lists(assistant_blocks, max_size=3))),
    objects(200, role=st.just("system"), content=st.one_of(texts, st.lists(objects(200, type=st.just("text"), text=texts), max_size=2))),
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "system": texts,
    "stream": st.booleans(),
    "temperature": st.floats(0, 2),
    "stop_sequences": st.lists(texts, max_size=2),
    "metadata": junk,
    "thinking": objects(type=st.sampled_from(["enabled", "disabled", "adaptive"]), budget_tokens=st.integers(1, 9000)),
    "output_config": objects(effort=st.sampled_from(["low", "max", "huge"])),
    "context_management": junk,
    "tools": st.lists(
        objects(
            200,
            name=names,
            type=st.sampled_from(["custom", "bash_20250124", "web_search_20250305"]),
            description=texts,
            input_schema=st.dictionaries(texts, junk, max_size=2),
        ),
        max_size=3,
    ),
    "tool_choice": st.sampled_from(
        [{"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "run"}]
    ),
}


@st.composite
def whole_requests(draw: st.DrawFn) -> Any:
    """A request, mostly well formed; each further field in one of three."""
    body = {"model": "m", "max_tokens": draw(st.integers(1, 9000)), "messages": draw(st.lists(messages, min_size=1, max_size=5))}
    for key, value in fields.items():
        if draw(st.integers(0, 2)) == 0:
            body[key] = draw(value)
    return draw(junk) if draw(st.integers(0, 100)) == 77 else body


requests = whole_requests()


@relaxed
@given(requests)
def test_property_any_request_is_translated_or_refused(body: Any) -> None:
    for make in (translate.chat_request, native.native_request, count.tokenize_request, native.native_count_request):
        before = json.dumps(body)
        try:
            made = make(body, SETTINGS, NAMES)
        except errors.InvalidRequestError as error:
            assert error.status == 400
            assert loads(error.body("req_1"))["request_id"] == "req_1"
        else:
            assert all(message["role"] in ("system", "user", "assistant", "tool") for message in made.body["messages"])
            assert made.turn.estimate > 0
        assert json.dumps(body) == before


@relaxed
@given(
    st.one_of(
        junk,
        st.fixed_dictionaries(
            {
                "choices": st.lists(
                    objects(
                        message=objects(content=texts, reasoning=texts, tool_calls=st.lists(tool_parts, max_size=2)),
                        finish_reason=st.sampled_from(["stop", "length", "abort"]),
                    ),
                    max_size=2,
                ),
                "usage": usages,
            }
        ),
    )
)
def test_property_any_whole_answer_becomes_a_message_or_an_error(data: Any) -> None:
    try:
        message, _ = translate.completion_message(data, Turn("m", max_tokens=9), "msg_1")
    except errors.ApiError as error:
        assert error.status >= 400
    else:
        assert message["stop_reason"] is not None
        assert all(isinstance(value, int) for value in message["usage"].values())
        assert all(isinstance(block["input"], dict) for block in message["content"] if block["type"] == "tool_use")


@relaxed
@given(st.integers(400, 599), st.one_of(st.binary(max_size=60), junk.map(lambda value: json.dumps(value).encode())))
def test_property_any_error_body_becomes_an_error(status: int, body: bytes) -> None:
    error = errors.from_upstream(status, {}, body)
    assert error.status >= 400
    assert error.message
    assert judged(error.frame()).faults == []
