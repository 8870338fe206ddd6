"""Tool calls in streams: what the recorded cases do not show; and the guard."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pod.bridge import calls, guard
from pod.bridge.events import MessageStream
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk, reason, run
from tests.unit.pod.bridge.legal import judged


def test_calls_that_all_have_the_number_0() -> None:
    blocks, ending, _ = run(calling(call(0, "a", "run", '{"x":1}')), calling(call(0, "b", "run", '{"x":2}')), chunk({}, "tool_calls"), DONE)
    assert blocks == [["tool_use", "run", {"x": 1}], ["tool_use", "run", {"x": 2}]]
    assert reason(ending) == "tool_use"


def test_calls_without_any_number() -> None:
    blocks, _, _ = run(
        calling(call(None, "a", "run", '{"x":')),
        calling(call(None, None, None, "1}")),
        calling(call(None, "b", "read", "{}")),
        chunk({}, "stop"),
        DONE,
    )
    assert blocks == [["tool_use", "run", {"x": 1}], ["tool_use", "read", {}]]


def test_a_new_id_in_each_piece_of_one_call() -> None:
    blocks, _, _ = run(calling(call(0, "a", "run", '{"x":')), calling(call(0, "b", "run", "1}")), chunk({}, "tool_calls"), DONE)
    assert blocks == [["tool_use", "run", {"x": 1}]]


def test_ids_are_made_unique() -> None:
    made = b"".join(
        MessageStream(Turn("m"), "msg_9").feed(calling(call(0, "a", "run", "{}"), call(1, "a", "run", "{}")) + chunk({}, "stop") + DONE)
    )
    assert [block["id"] for block in judged(made).blocks] == ["a", "toolu_9_1"]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (None, {}),
        ("", {}),
        ("null", {}),
        ("{}", {}),
        ({"a": 1}, {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a":1}{"a":1}', {"a": 1}),
        ('{"a": 1} trailing', {"a": 1}),
        ("[1]", {}),
        ("{a: 1", {}),
        ("{'a': 1}", {}),
    ],
)
def test_arguments_in_all_forms(arguments: Any, read: dict[str, Any]) -> None:
    blocks, ending, _ = run(calling(call(0, "a", "run", arguments)), chunk({}, "tool_calls"), DONE)
    assert blocks == [["tool_use", "run", read]]
    assert reason(ending) == "tool_use"


def test_snapshots_in_place_of_pieces() -> None:
    pieces = ['{"a"', '{"a":"x', '{"a":"xy"}']
    blocks, _, _ = run(
        calling(call(0, "a", "run", pieces[0])), *(calling(call(0, None, None, p)) for p in pieces[1:]), chunk({}, "stop"), DONE
    )
    assert blocks == [["tool_use", "run", {"a": "xy"}]]


def test_a_name_in_pieces() -> None:
    blocks, _, _ = run(
        calling(call(0, "a", "read_")), calling(call(0, None, "file")), calling(call(0, None, None, "{}")), chunk({}, "stop"), DONE
    )
    assert blocks == [["tool_use", "read_file", {}]]


def test_a_call_that_max_tokens_cuts_off_is_not_shown() -> None:
    blocks, ending, stream = run(
        chunk({"content": "I write."}),
        calling(call(0, "a", "run", '{"x":1}')),
        calling(call(1, "b", "run", '{"x":')),
        chunk({}, "length", {"prompt_tokens": 5, "completion_tokens": 100}),
        DONE,
    )
    assert blocks == [["text", "I write."], ["tool_use", "run", {"x": 1}]]
    assert reason(ending) == "max_tokens"
    assert any("cut off by max_tokens" in note for note in stream.notes)


def test_text_in_the_middle_of_a_call_waits_for_it() -> None:
    blocks, _, _ = run(
        calling(call(0, "a", "run", '{"x":')),
        chunk({"content": "mean"}),
        chunk({"content": "while"}),
        calling(call(0, None, None, "1}")),
        chunk({"content": "!"}),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert blocks == [["tool_use", "run", {"x": 1}], ["text", "meanwhile!"]]


def test_one_tool_at_most_means_one() -> None:
    blocks, _, _ = run(
        calling(call(0, "a", "run", "{}"), call(1, "b", "read", "{}")), chunk({}, "tool_calls"), DONE, turn=Turn("m", one_tool=True)
    )
    assert blocks == [["tool_use", "run", {}]]


def test_a_call_without_a_name_gets_the_forced_one_or_is_left_out() -> None:
    parts = (calling(call(0, "a", None, '{"x":1}')), chunk({}, "stop"), DONE)
    assert run(*parts, turn=Turn("m", forced_tool="run"))[0] == [["tool_use", "run", {"x": 1}]]
    blocks, ending, _ = run(*parts)
    assert (blocks, reason(ending)) == ([], "end_turn")


def test_large_arguments_go_out_in_pieces() -> None:
    text = json.dumps({"text": 'é\\"' * 30000}, ensure_ascii=False)
    stream = MessageStream(Turn("m"), "msg_1")
    frames = stream.feed(calling(call(0, "a", "run", text)) + chunk({}, "stop") + DONE)
    assert max(map(len, frames)) < 100_000
    assert judged(b"".join(frames)).blocks[0]["input"] == json.loads(text)


def test_what_older_engines_send() -> None:
    assert run(
        chunk({"function_call": {"name": "run", "arguments": '{"x":'}}),
        chunk({"function_call": {"arguments": "1}"}}),
        chunk({}, "function_call"),
        DONE,
    )[0] == [["tool_use", "run", {"x": 1}]]
    blocks, ending, _ = run(chunk({"refusal": "no"}), chunk({}, "content_filter"), DONE)
    assert (blocks, reason(ending)) == ([["text", "no"]], "refusal")
    assert run(chunk({"content": [{"type": "text", "text": "x"}]}), chunk({}, "stop"), DONE)[0] == [["text", "x"]]


MARKED = {"file_path": "a.py", "content": "import os\n# ... rest of file\n"}


@pytest.mark.parametrize(
    ("name", "text", "is_refused"),
    [
        ("Write", "x\n... rest of file", True),
        ("write_file", "[... previous code ...]", True),
        ("mcp__fs__write_file", "(reste du fichier inchangé)", True),
        ("create_file", "<unchanged>", True),
        ("Write", "// ... existing code remains unchanged ...", True),
        ("Write", "a = [...]", False),
        ("Write", "# ...", False),
        ("Write", "the rest of file handling is below", False),
        ("Edit", "... rest of file", False),
        ("Bash", "... rest of file", False),
    ],
)
def test_the_guard(name: str, text: str, is_refused: bool) -> None:
    assert (guard.refusal(name, {"path": "p", "content": text}) is not None) == is_refused


def test_a_guarded_call_becomes_a_text() -> None:
    parts = (calling(call(0, "a", "Write", json.dumps(MARKED))), chunk({}, "tool_calls"), DONE)
    blocks, ending, _ = run(*parts, turn=Turn("m", guard=True))
    assert (len(blocks), blocks[0][0], reason(ending)) == (1, "text", "end_turn")
    assert "The call of Write was held back" in blocks[0][1]
    assert run(*parts)[0] == [["tool_use", "Write", MARKED]]


def test_wholeness_is_looked_at_once_for_each_piece() -> None:
    pending = calls.PendingCall()
    pending.pieces.append("{}")
    assert pending.is_whole()
    pending.pieces.append(" ")
    assert pending.checked == 1
    assert not pending.is_whole()
