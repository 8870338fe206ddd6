"""Context edits: what is cleared, when, and what the answer says of it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pod.bridge import count, native, translate
from pod.bridge.errors import InvalidRequestError
from pod.bridge.models import Names
from pod.bridge.requests_editing import CLEARED, edits_of

from tests.unit.pod.bridge.chunks import DONE, chunk, run
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import Engine, Peer, pair
from tests.unit.pod.bridge.net import run as run_async
from tests.unit.pod.bridge.test_requests import PNG, SETTINGS, result

NAMES = Names(SETTINGS.models)
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "search", "memory")]


def conversation(*names: str, size: int = 4000, thinking: bool = False) -> list[dict[str, Any]]:
    """A user's wish, then one call a name, each with a result of `size` characters."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "do it"}]
    for i, name in enumerate(names):
        thoughts = [{"type": "thinking", "thinking": f"thought {i}", "signature": "s"}] if thinking else []
        call = {"type": "tool_use", "id": f"c{i}", "name": name, "input": {"q": f"input {i}"}}
        messages.append({"role": "assistant", "content": [*thoughts, call]})
        messages.append({"role": "user", "content": [result(f"c{i}", f"{i} " + "x" * size)]})
    return messages


def body_of(messages: list[dict[str, Any]], *edits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": messages, "tools": TOOLS, "context_management": {"edits": list(edits)}, **more}


def made(messages: list[dict[str, Any]], *edits: dict[str, Any], counted: int | None = None) -> translate.Translation:
    return translate.chat_request(body_of(messages, *edits), SETTINGS, NAMES, None, counted)


def results(translation: translate.Translation) -> list[str]:
    """The first letters of each result that the model reads, "-" where it was cleared."""
    texts = [message["content"] for message in translation.body["messages"] if message["role"] == "tool"]
    return ["-" if text == CLEARED else text[:1] for text in texts]


def uses(trigger: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "clear_tool_uses_20250919", **({} if trigger is None else {"trigger": trigger}), **more}


def tokens(value: int) -> dict[str, Any]:
    return {"type": "input_tokens", "value": value}


def number(value: int) -> dict[str, Any]:
    return {"type": "tool_uses", "value": value}


@pytest.mark.parametrize(
    ("edit", "names", "left"),
    [
        (uses(), ["read"] * 5, "01234"),  # far below 100,000 tokens
        (uses(tokens(2500)), ["read"] * 5, "--234"),
        (uses(tokens(10), keep=number(1)), ["read"] * 5, "----4"),
        (uses(tokens(10), keep=number(0)), ["read"] * 3, "---"),
        (uses(tokens(10), keep=number(9)), ["read"] * 3, "012"),
        (uses(number(2), keep=number(1)), ["read"] * 3, "--2"),
        (uses(number(2), keep=number(1)), ["read"] * 4, "--23"),  # two whole uses are not more than two
        (uses(number(2), keep=number(1)), ["read"] * 5, "----4"),
        (uses(number(3)), ["read"] * 3, "012"),
        (uses(number(1), keep=number(1), exclude_tools=["memory"]), ["memory", "read", "memory", "read", "read"], "0-2-4"),
        (uses(tokens(10), keep=number(1), clear_at_least=tokens(10**6)), ["read"] * 3, "012"),
        (uses(tokens(10), keep=number(1), clear_at_least=tokens(900)), ["read"] * 3, "--2"),
    ],
)
def test_which_results_are_cleared(edit: dict[str, Any], names: list[str], left: str) -> None:
    translation = made(conversation(*names), edit)
    assert "".join(results(translation)) == left
    claimed = list(translation.turn.applied_edits)
    if "-" not in left:
        assert claimed == [] and translation.turn.claims == {}
    else:
        assert claimed[0]["type"] == "clear_tool_uses_20250919" and claimed[0]["cleared_tool_uses"] == left.count("-")
        assert 900 * left.count("-") < claimed[0]["cleared_input_tokens"] < 1100 * left.count("-")
        assert translation.turn.estimate < made(conversation(*names)).turn.estimate


def test_the_beginning_of_the_prompt_stays_between_two_clearings() -> None:
    """What the prefix cache holds is lost only when the trigger fires, not at each request of a session that goes on."""
    starts = [results(made(conversation(*["read"] * n), uses(tokens(8000), keep=number(2)))) for n in range(1, 40)]
    changes = sum(before != after[: len(before)] for before, after in itertools.pairwise(starts))
    assert 4 <= changes <= 7  # each clearing makes room for six results of a thousand tokens
    assert all(one.count("-") >= len(one) - 7 for one in starts) and all(one[-2:].count("-") == 0 for one in starts)


def test_inputs_images_and_errors() -> None:
    messages = conversation("read", "search", "read")
    messages[2]["content"][0].update(content=[{"type": "text", "text": "seen"}, PNG], is_error=True)
    for inputs, left in ((True, ["{}", "{}"]), (["search"], ['{"q":"input 0"}', "{}"]), (False, ['{"q":"input 0"}', '{"q":"input 1"}'])):
        translation = made(messages, uses(tokens(10), keep=number(1), clear_tool_inputs=inputs))
        calls = [call["function"]["arguments"] for message in translation.body["messages"] for call in message.get("tool_calls", [])]
        assert calls == [*left, '{"q":"input 2"}'] and "".join(results(translation)) == "--2"
        assert "image_url" not in json.dumps(translation.body)


def test_parallel_calls_are_cleared_one_by_one() -> None:
    calls = [{"type": "tool_use", "id": f"p{i}", "name": "read", "input": {}} for i in range(4)]
    answers = [result(f"p{i}", f"{i} " + "x" * 400) for i in range(4)]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}, {"role": "assistant", "content": calls}, {"role": "user", "content": answers}]
    assert "".join(results(made(messages, uses(number(3), keep=number(2))))) == "--23"


def test_the_tokenizers_count_decides_where_there_is_one() -> None:
    messages, edit = conversation("read", "read", "read"), uses(tokens(50_000), keep=number(1))
    assert results(made(messages, edit)) == ["0", "1", "2"]
    assert results(made(messages, edit, counted=45_000)) == ["0", "1", "2"]
    assert results(made(messages, edit, counted=60_000)) == ["-", "-", "2"]
    claimed = made(messages, edit, counted=60_000).turn.applied_edits[0]["cleared_input_tokens"]
    assert 35_000 < claimed < 40_000  # two thirds of a prompt that is nearly all results


def test_thinking_of_old_turns() -> None:
    first, second, third = conversation("read", "read", thinking=True), conversation("read", thinking=True), conversation("read", thinking=True)
    messages: list[dict[str, Any]] = [*first, {"role": "assistant", "content": "done"}, *second, {"role": "assistant", "content": "so"}, *third]

    def thoughts(*edits: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
        translation = made(messages, *edits)
        return [one["reasoning"] for one in translation.body["messages"] if "reasoning" in one], list(translation.turn.applied_edits)

    edit: dict[str, Any] = {"type": "clear_thinking_20251015"}
    everything = ["thought 0", "thought 1", "thought 0", "thought 0"]
    assert thoughts() == (everything, [])
    assert thoughts({**edit, "keep": "all"}) == thoughts({**edit, "keep": {"type": "all"}}) == (everything, [])
    kept, claimed = thoughts(edit)
    assert kept == everything[3:] and claimed[0]["cleared_thinking_turns"] == 2 and claimed[0]["cleared_input_tokens"] > 0
    kept, claimed = thoughts({**edit, "keep": {"type": "thinking_turns", "value": 2}})
    assert kept == everything[2:] and claimed[0]["cleared_thinking_turns"] == 1
    kept, claimed = thoughts(edit, uses(tokens(10), keep=number(1)))
    assert [one["type"] for one in claimed] == ["clear_thinking_20251015", "clear_tool_uses_20250919"]


def test_what_is_not_known_is_left_alone_and_not_claimed() -> None:
    translation = made(conversation("read"), {"type": "compact_20260112"}, {"type": "clear_everything_2030"})
    assert translation.turn.applied_edits == () and sum("was not applied" in note for note in translation.notes) == 2
    assert "context_management" not in translation.body
    nothing: list[Any] = [None, {}, {"edits": None}, {"edits": []}]
    for odd in nothing:
        assert edits_of({"context_management": odd}) == edits_of({})


@pytest.mark.parametrize(
    ("odd", "route"),
    [
        ([], "context_management"),
        ({"edits": {}}, "context_management.edits"),
        ({"edits": ["x"]}, "context_management.edits.0"),
        ({"edits": [{"type": "clear_thinking_20251015", "keep": 1}]}, "context_management.edits.0.keep"),
        ({"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}}]}, "context_management.edits.0.keep"),
        ({"edits": [uses({"type": "messages", "value": 3})]}, "context_management.edits.0.trigger"),
        ({"edits": [uses(tokens(0))]}, "context_management.edits.0.trigger"),
        ({"edits": [uses(keep=tokens(3))]}, "context_management.edits.0.keep"),
        ({"edits": [uses(clear_at_least=number(3))]}, "context_management.edits.0.clear_at_least"),
        ({"edits": [uses(exclude_tools="read")]}, "context_management.edits.0.exclude_tools"),
        ({"edits": [uses(clear_tool_inputs=[1])]}, "context_management.edits.0.clear_tool_inputs"),
    ],
)
def test_what_cannot_be_meant(odd: Any, route: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        edits_of({"context_management": odd})
    assert caught.value.route == route


def test_native_requests_and_counts_are_edited_too() -> None:
    body = body_of(conversation("read", "read"), uses(tokens(10), keep=number(1)))
    for make in (native.native_request, native.native_count_request):
        sent = make(body, SETTINGS, NAMES).body["messages"]
        assert sent[2]["content"][0]["content"] == CLEARED and sent[4]["content"][0]["content"][:1] == "1"
    assert CLEARED in json.dumps(count.tokenize_request(body, SETTINGS, NAMES).body)


def test_streams_and_whole_answers_claim_what_was_done() -> None:
    turn = made(conversation("read", "read"), uses(tokens(10), keep=number(1))).turn
    _, ending, _ = run(chunk({"content": "x"}, "stop"), DONE, turn=turn)
    assert ending["context_management"] == {"applied_edits": list(turn.applied_edits)}
    message, _ = translate.completion_message({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}, turn, "msg_1")
    assert message["context_management"] == ending["context_management"]


def test_the_engine_counts_before_and_after() -> None:
    """The trigger hangs on the engine's own count: 30 tokens a character here, so that an estimate would not clear anything."""

    def counts(peer: Peer) -> None:
        peer.whole(200, {"count": 30 * sum(len(message["content"]) for message in peer.asked.json["messages"])})

    async def work() -> None:
        engine = Engine(tokenize=counts, v1__chat__completions=lambda peer: peer.text("ok"))
        engine.answers["/v1/models"] = lambda peer: peer.whole(200, {"data": [{"id": "m", "max_model_len": 10**6}]})
        async with pair(engine) as bridge:
            body = body_of(conversation("read", "read", size=2000), uses(tokens(1000), keep=number(1)))
            got = await bridge.ask("POST", "/v1/messages", {**body, "stream": True})
            judge = judged(got.body)
            assert judge.faults == [] and judge.deltas[-1]["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 1
            sent = engine.of("/v1/chat/completions")[0].json["messages"]
            assert [one["content"][:2] for one in sent if one["role"] == "tool"] == [CLEARED[:2], "1 "]
            counted = (await bridge.ask("POST", "/v1/messages/count_tokens", body)).json
            assert counted["input_tokens"] == 30 * (5 + len(CLEARED) + 2002)
            assert counted["context_management"] == {"original_input_tokens": 30 * (5 + 2002 + 2002)}
            plain = (await bridge.ask("POST", "/v1/messages/count_tokens", {**body, "context_management": None})).json
            assert plain == {"input_tokens": 30 * (5 + 2002 + 2002)}
            del engine.answers["/tokenize"]
            assert (await bridge.ask("POST", "/v1/messages", body)).status in (200, 502)  # an engine that cannot count stops nobody

    run_async(work())


def any_uses(trigger: dict[str, Any], keep: int, least: int, excluded: list[str], inputs: bool) -> dict[str, Any]:
    return uses(trigger, keep=number(keep), clear_at_least=tokens(least), exclude_tools=excluded, clear_tool_inputs=inputs)


TRIGGERS = st.one_of(st.builds(tokens, st.integers(1, 5000)), st.builds(number, st.integers(1, 9)))
EXCLUDED = st.lists(st.sampled_from(["read", "memory"]), max_size=1)
USES = st.builds(any_uses, TRIGGERS, st.integers(0, 9), st.integers(0, 3000), EXCLUDED, st.booleans())
THOUGHTS = st.builds(lambda n: {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": n}}, st.integers(1, 5))
EDITS = st.lists(st.one_of(USES, THOUGHTS), max_size=3)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(["read", "search", "memory"]), max_size=9), EDITS, st.one_of(st.none(), st.integers(0, 20_000)))
def test_edits_clear_and_never_break(names: list[str], edits: list[dict[str, Any]], counted: int | None) -> None:
    messages = conversation(*names, size=1500, thinking=True)
    plain, edited = made(messages), made(messages, *edits, counted=counted)
    assert [one["role"] for one in edited.body["messages"]] == [one["role"] for one in plain.body["messages"]]
    assert [one.get("tool_call_id") for one in edited.body["messages"]] == [one.get("tool_call_id") for one in plain.body["messages"]]
    cleared = results(edited).count("-")
    claimed = {one["type"]: one for one in edited.turn.applied_edits}
    assert claimed.get("clear_tool_uses_20250919", {}).get("cleared_tool_uses", 0) == cleared
    assert all(one["cleared_input_tokens"] >= 0 for one in claimed.values())
    rule = next((one for one in reversed(edits) if one["type"].startswith("clear_tool")), None)
    if rule is not None:
        shown = [mark for mark, name in zip(results(edited), names, strict=True) if name not in rule["exclude_tools"]]
        keep = rule["keep"]["value"]
        assert "-" not in shown[len(shown) - keep :] if keep <= len(shown) else "-" not in shown
