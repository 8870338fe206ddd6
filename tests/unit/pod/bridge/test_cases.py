"""Each recorded case: the expected files to the byte, however upstream is cut, and what a person says must come out."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pod.bridge import count, errors, translate
from pod.bridge.keepalive import PingStream
from pod.bridge.native import NativeStream

from tests.unit.pod.bridge.legal import Judge, frames_of, judged
from tests.unit.pod.bridge.play import Case, Clock, Played, answered, bytewise, cases, play, play_script, whole

ALL = cases()
REPORTS = [
    "life-02",
    "life-03",
    "life-04",
    "life-05",
    "life-06",
    "life-08",
    "life-10",
    "life-11",
    "life-12",
    "life-13",
    "life-17",
    "life-20",
    "life-21",
    "life-23",
    "life-24",
    "tool-01",
    "tool-02",
    "tool-05",
    "tool-06",
    "tool-08",
    "tool-09",
    "tool-10",
    "tool-12",
    "tool-13",
    "tool-18",
    "tool-21",
    "tool-24",
    "tool-25",
    "reas-01",
    "reas-02",
    "reas-03",
    "reas-04",
    "reas-05",
    "reas-10",
    "reas-14",
    "reas-15",
    "reas-18",
    "reas-19",
    "stop-03",
    "stop-04",
    "stop-06",
    "stop-08",
    "use-02",
    "use-04",
    "use-07",
    "use-08",
    "sse-02",
    "sse-03",
    "sse-04",
    "sse-08",
    "live-02",
    "live-03",
    "live-07",
    "live-08",
    "live-09",
    "live-10",
    "err-02",
    "err-04",
    "err-05",
    "err-07",
    "err-10",
    "sys-01",
    "sys-02",
    "sys-03",
    "sys-05",
    "sys-10",
    "rt-04",
    "rt-05",
    "rt-06",
    "rt-08",
    "rt-09",
    "rc-04",
    "rc-05",
    "rc-06",
    "rc-10",
    "rc-11",
    "rc-13",
    "rc-14",
    "rf-01",
    "rf-03",
    "rf-04",
    "rf-05",
    "rf-09",
    "ct-01",
    "ct-04",
    "ct-05",
    "mh-01",
    "mh-09",
    "mh-10",
    "mh-11",
    "mh-12",
    "mh-13",
    "mh-17",
    "mh-18",
    "mh-19",
]
STREAMED = [case for case in ALL if case.file("expected.sse").exists()]
ANSWERED = [case for case in ALL if case.file("expected.json").exists()]
REQUESTED = [case for case in ALL if case.file("expected_request.json").exists()]
by_id = {"ids": lambda case: case.id}


def wanting(key: str) -> list[Case]:
    found = [case for case in ALL if key in case.wants]
    assert found, f"no case wants {key}"
    return found


def random_cut(seed: int) -> Any:
    chance = random.Random(seed)

    def cut(data: bytes) -> list[bytes]:
        places = sorted(chance.sample(range(1, len(data)), min(len(data) - 1, chance.randint(1, 40)))) if len(data) > 1 else []
        return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]

    return cut


def test_every_report_has_its_case() -> None:
    assert sorted(REPORTS) == [case.id for case in ALL]


@pytest.mark.parametrize("case", STREAMED, **by_id)
def test_a_stream_is_the_same_however_upstream_is_cut(case: Case) -> None:
    expected = case.file("expected.sse").read_bytes()
    for cut in (whole, bytewise, *(random_cut(seed) for seed in range(12))):
        assert play(case, cut).bytes == expected


@pytest.mark.parametrize("case", STREAMED, **by_id)
def test_a_stream_is_legal(case: Case) -> None:
    assert judged(case.file("expected.sse").read_bytes()).faults == []


@pytest.mark.parametrize("case", REQUESTED, **by_id)
def test_a_request_becomes_what_was_reviewed(case: Case) -> None:
    expected = json.loads(case.file("expected_request.json").read_text())
    made = [item.body if isinstance(item, translate.Translation) else item.payload() for item in case.translations()]
    assert made == (expected if len(made) > 1 else [expected])


@pytest.mark.parametrize("case", ANSWERED, **by_id)
def test_a_whole_answer_becomes_what_was_reviewed(case: Case) -> None:
    answer = case.upstream_answer()
    assert answer is not None
    assert answered(case, answer) == json.loads(case.file("expected.json").read_text())


def told(case: Case) -> tuple[list[list[Any]], dict[str, Any], list[str], Judge | None]:
    """Blocks, ending and notes of a case, from its stream or its whole answer."""
    if case in STREAMED:
        played = play(case)
        judge = judged(played.bytes)
        blocks = [[b["type"], b["name"], b["input"]] if b["type"] == "tool_use" else [b["type"], b[b["type"]]] for b in judge.blocks]
        ending = {**judge.deltas[-1]["delta"], "usage": judge.deltas[-1]["usage"], "model": (judge.start or {})["model"]}
        return blocks, ending, played.stream.notes, judge
    message = json.loads(case.file("expected.json").read_text())
    blocks = [[b["type"], b["name"], b["input"]] if b["type"] == "tool_use" else [b["type"], b[b["type"]]] for b in message["content"]]
    assert all(b["signature"] for b in message["content"] if b["type"] == "thinking")
    return blocks, message, message.get("notes", []), None


@pytest.mark.parametrize("case", wanting("blocks"), **by_id)
def test_the_blocks_and_the_ending(case: Case) -> None:
    blocks, ending, notes, judge = told(case)
    wants = case.wants
    assert blocks == wants["blocks"]
    assert [ending["stop_reason"], ending["stop_sequence"]] == wants["stop"]
    assert wants.get("usage", {}).items() <= ending["usage"].items()
    assert ending["model"] == wants.get("model", case.posts()[0]["body"]["model"])
    assert wants.get("noted", "") in "\n".join(notes)
    if judge:
        usage = (judge.start or {})["usage"]
        assert wants.get("start_usage", {}).items() <= usage.items()
        assert usage["input_tokens"] > 0
        assert not set(wants.get("start_absent", [])) & usage.keys()


def keys_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set().union(*map(keys_in, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("case", REQUESTED, **by_id)
def test_what_the_engine_gets(case: Case) -> None:
    wants = case.wants
    for i, made in enumerate(case.translations()):
        refused = wants.get("refused_of", [wants.get("refused")] * 9)[i]
        if refused is not None:
            assert isinstance(made, errors.InvalidRequestError)
            assert (made.status, made.kind, made.route) == (400, "invalid_request_error", refused)
            assert made.message.startswith(refused)
            continue
        assert isinstance(made, translate.Translation)
        body, messages = made.body, made.body["messages"]
        assert body.get("model") == wants.get("upstream_models", ["org/Name-7B:fp8"] * 9)[i]
        for part in (wants.get("request", {}), wants.get("counted", {}), wants.get("request_of", [{}] * 9)[i]):
            assert {key: body.get(key) for key in part} == part
        assert not set(wants.get("absent", [])) & keys_in({key: value for key, value in body.items() if key != "tools"})
        assert wants.get("prompt_contains", "") in json.dumps(messages)
        assert [m["role"] for m in messages] == wants.get("roles", [m["role"] for m in messages])
        assert messages[-1] == wants.get("last", messages[-1])
        texts = [m["content"] for m in messages if m["role"] == "tool"]
        assert texts == wants.get("tool_texts_of", [wants.get("tool_texts", texts)] * 9)[i]
        names = [tool["function"]["name"] for tool in body.get("tools", []) if "function" in tool]
        assert names == wants.get("tools", names)


@pytest.mark.parametrize("case", wanting("all_alike"), **by_id)
def test_requests_that_must_reach_the_engine_alike(case: Case) -> None:
    bodies = [made.body for made in case.translations() if isinstance(made, translate.Translation)]
    assert len(bodies) > 1
    assert all(body == bodies[0] for body in bodies)


@pytest.mark.parametrize("case", wanting("failure"), **by_id)
def test_failures(case: Case) -> None:
    stream = play(case).stream
    wanted = case.wants["failure"]
    assert (stream.failure.status, stream.failure.kind) == (wanted["status"], wanted["kind"])
    assert stream.done


@pytest.mark.parametrize("case", wanting("http"), **by_id)
def test_error_answers(case: Case) -> None:
    wanted, made = case.wants["http"], answered(case, case.upstream_answer() or {})
    assert (made["status"], made["body"]["error"]["type"]) == (wanted["status"], wanted["kind"])
    assert made["body"]["error"]["message"].startswith(wanted.get("starts", ""))
    assert wanted.get("contains", "") in made["body"]["error"]["message"]
    assert wanted.get("headers", {}).items() <= made["headers"].items()


@pytest.mark.parametrize("case", wanting("max_silence_s"), **by_id)
def test_the_client_is_never_left_in_silence(case: Case) -> None:
    played = play(case)
    assert played.longest_silence <= case.wants["max_silence_s"]
    judge = judged(played.bytes)
    assert judge.pings >= case.wants.get("pings", 0)
    empty = [data for name, data in frames_of(played.bytes) if name == "content_block_delta" and "" in data["delta"].values()]
    assert len(empty) >= case.wants.get("empty_deltas", 0)


@pytest.mark.parametrize("case", wanting("early"), **by_id)
def test_pieces_go_out_as_they_come(case: Case) -> None:
    script = case.script() or []
    first = script[0]
    assert isinstance(first, bytes)
    stream = play(case).stream.__class__(case.turn(), "msg_1", usage_s=0)
    sent = b"".join(stream.feed(first.replace(b"data: [DONE]\r\r", b"").replace(b"data: [DONE]\n\n", b"")))
    for kind in case.wants["early"]:
        assert kind.encode() in sent


def test_a_lowered_answer() -> None:
    (case,) = wanting("lowered")
    answer = case.upstream_answer()
    assert answer is not None
    overflow = errors.overflow_of(answer["body"]["error"]["message"])
    assert overflow == errors.Overflow(window=196608, prompt=150000, asked=64000, exact=True)
    assert overflow.lowered() == case.wants["lowered"]
    assert overflow.wording() == "input length and `max_tokens` exceed context limit: 150000 + 64000 > 196608"
    (made,) = case.translations()
    assert isinstance(made, translate.Translation)
    lowered = translate.with_max_tokens({**made.body, "thinking_token_budget": 50000}, 46608)
    assert (lowered["max_tokens"], lowered["thinking_token_budget"]) == (46608, 45584)


@pytest.mark.parametrize("case", wanting("counted"), **by_id)
def test_counts(case: Case) -> None:
    (made,) = case.translations()
    assert isinstance(made, translate.Translation)
    assert "max_tokens" not in made.body
    assert count.estimate(case.posts()[0]["body"]) >= case.wants.get("estimate_at_least", 1)
    answer = case.upstream_answer()
    if answer:
        assert count.count_in(json.dumps(answer["body"]).encode()) == case.wants["count"]


def test_the_model_lists() -> None:
    (case,) = wanting("models")
    listed = case.names.page(anthropic=True)
    assert set(listed["data"][0]) >= {"type", "id", "display_name", "created_at"}
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "org/Name-7B:fp8", "org/Name-7B:fp8")
    plain = case.names.page(anthropic=False)
    assert plain["object"] == "list"
    assert set(plain["data"][0]) >= {"id", "object", "created", "owned_by"}


def test_one_entry_by_any_spelling() -> None:
    (case,) = wanting("entry")
    for exchange in case.exchanges:
        if exchange["method"] == "GET":
            name = exchange["path"].removeprefix("/v1/models/")
            assert case.names.entry(name, anthropic=True)["id"] == case.wants["entry"]
    with pytest.raises(errors.ApiError) as caught:
        case.names.entry("nobody", anthropic=True)
    assert (caught.value.status, caught.value.kind) == (404, "not_found_error")


def test_a_whole_answer_has_an_id() -> None:
    (case,) = wanting("id")
    message = json.loads(case.file("expected.json").read_text())
    assert message["id"].startswith("msg_")
    assert {"type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"} <= message.keys()


@pytest.mark.parametrize("case", [case for case in STREAMED if "blocks" in case.wants], **by_id)
def test_native_mode_leaves_a_strict_stream_as_it_is(case: Case) -> None:
    expected = case.file("expected.sse").read_bytes()
    for cut in (whole, bytewise):
        stream = NativeStream(case.turn(), "msg_0001", usage_s=0, clock=Clock())
        made = b"".join(frame for piece in cut(expected) for frame in stream.feed(piece)) + b"".join(stream.flush())
        assert without_pings_and_updates(made) == without_pings_and_updates(expected)


def without_pings_and_updates(stream: bytes) -> list[Any]:
    """The frames without those that depend on the clock; a call's raw arguments are not part of Anthropic's protocol."""
    kept = []
    for name, data in frames_of(stream):
        is_update = name == "message_delta" and data["delta"]["stop_reason"] is None
        is_empty = name == "content_block_delta" and "" in data["delta"].values()
        if name != "ping" and not is_update and not is_empty:
            data.get("content_block", {}).pop("raw_arguments", None)
            kept.append((name, data))
    return kept


@pytest.mark.parametrize("case", STREAMED, **by_id)
def test_keepalive_changes_no_byte(case: Case) -> None:
    script = case.script() or []
    sent = b"".join(step for step in script if isinstance(step, bytes))
    for cut in (whole, bytewise, random_cut(7)):
        played = play_script(PingStream(anthropic=False), script, cut, Clock(), case.settings)
        assert without_comments(played) == sent
        if played.longest_silence > 0:
            assert played.longest_silence <= case.settings.ping_s


def without_comments(played: Played) -> bytes:
    made = b"".join(frame for _, frame in played.sent if frame != b": keep-alive\n\n")
    return made.partition(b'data: {"error":')[0]
