"""Characters that an engine cuts in two: in the middle of their UTF-8, or between their UTF-16 halves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pod.bridge.events import MessageStream
from pod.bridge.native import NativeStream
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk, run
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import Clock

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: bool(text.strip()))


def units(text: str) -> list[str]:
    """The UTF-16 units of a text, each as a text of its own."""
    data = text.encode("utf-16-le")
    return [data[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(data), 2)]


@pytest.mark.parametrize("kind", ["text", "thinking"])
@pytest.mark.parametrize("text", ["😀", "a😀b", "😀😀", "한글\u2028😀"])
def test_a_character_in_two_chunks(kind: str, text: str) -> None:
    key = "content" if kind == "text" else "reasoning"
    more = [] if kind == "text" else [chunk({"content": "x"})]
    blocks, _, _ = run(*(chunk({key: unit}) for unit in units(text)), *more, chunk({}, "stop"), DONE)
    assert blocks[0] == [kind, text]


def test_a_half_that_stays_alone() -> None:
    for pieces, text in ((["a\ud83d", "b"], "a\ufffdb"), (["a", "\ude00b"], "a\ufffdb"), (["a\ud83d"], "a\ufffd"), (["a\ud83d", "", "\ude00"], "a😀")):
        blocks, _, _ = run(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), DONE)
        assert blocks == [["text", text]]
    # A half of a thought is not kept for the text behind it, and opens no block after it.
    blocks, _, _ = run(chunk({"reasoning": "a\ud83d"}), chunk({"content": "\ude00b"}, "stop"), DONE)
    assert blocks == [["thinking", "a"], ["text", "\ufffdb"]]


def test_arguments_in_halves_of_two_calls() -> None:
    first, second = units('{"a":"x😀"}'), units('{"b":"😎y"}')
    pieces = [calling(call(0, "c0", "run", ""), call(1, "c1", "run", ""))]
    for i in range(max(len(first), len(second))):
        pieces.append(calling(*(call(index, None, None, text[i]) for index, text in enumerate((first, second)) if i < len(text))))
    blocks, _, _ = run(*pieces, chunk({}, "tool_calls"), DONE)
    assert blocks == [["tool_use", "run", {"a": "x😀"}], ["tool_use", "run", {"b": "😎y"}]]


def event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def native(text: str) -> list[bytes]:
    start: dict[str, Any] = {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 0}}}
    block: dict[str, Any] = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": unit}} for unit in units(text)]
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    return [event(data) for data in (start, block, *deltas, {"type": "content_block_stop", "index": 0}, stop, {"type": "message_stop"})]


@settings(deadline=None, max_examples=150)
@given(TEXTS, st.data())
def test_any_text_in_any_halves_and_any_cut(text: str, data: st.DataObject) -> None:
    """Chunks of single UTF-16 units, and their bytes cut anywhere, in both protocols; and the same as raw UTF-8."""
    chat = b"".join([*(chunk({"content": unit}) for unit in units(text)), chunk({}, "stop"), DONE])
    raw = "data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}, ensure_ascii=False) + "\n\n"
    for stream, sent in (
        (MessageStream(Turn("m"), "msg_1", usage_s=0, clock=Clock()), chat),
        (MessageStream(Turn("m"), "msg_1", usage_s=0, clock=Clock()), raw.encode() + DONE),
        (NativeStream(Turn("m"), "msg_1", usage_s=0, clock=Clock()), b"".join(native(text))),
    ):
        places = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
        cuts = [sent[a:b] for a, b in zip([0, *places], [*places, len(sent)], strict=True)]
        made = b"".join(frame for cut in cuts for frame in stream.feed(cut)) + b"".join(stream.flush())
        judge = judged(made)
        assert judge.faults == [] and [(block["type"], block["text"]) for block in judge.blocks] == [("text", text)]
