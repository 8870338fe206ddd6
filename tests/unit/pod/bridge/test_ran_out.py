"""A call that max_tokens cut off, of which the engine says that it is whole: vLLM 0.27.1 does so at the end of streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pod.bridge.native import NativeStream
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk, reason, run
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import Clock

WHOLE, CUT = '{"x": 1}', '{"x":'


@pytest.mark.parametrize(
    ("arguments", "completion", "window", "shown", "stop"),
    [
        (CUT, 100, None, [], "max_tokens"),
        (CUT, 90, 95, [], "model_context_window_exceeded"),
        (WHOLE, 100, None, [["tool_use", "run", {"x": 1}]], "tool_use"),
        (CUT, 90, None, [["tool_use", "run", {}]], "tool_use"),  # the model's own mistake, which the client tells it
    ],
)
def test_the_usage_tells(arguments: str, completion: int, window: int | None, shown: list[Any], stop: str) -> None:
    turn = Turn("m", max_tokens=100, window=window)
    usage = {"prompt_tokens": 5, "completion_tokens": completion}
    blocks, ending, _ = run(calling(call(0, "a", "run", arguments)), chunk({}, "tool_calls"), chunk({}, usage=usage), DONE, turn=turn)
    assert blocks == shown and reason(ending) == stop

    stream = NativeStream(turn, "msg_1", usage_s=0, clock=Clock())
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 0}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "run", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"input_tokens": 5, "output_tokens": completion}},
        {"type": "message_stop"},
    ]
    data = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    judge = judged(b"".join(stream.feed(data) + stream.flush()))
    assert judge.faults == [] and reason(judge.deltas[-1]) == stop
    assert [[block["type"], block["name"], block["input"]] for block in judge.blocks if block["type"] == "tool_use"] == shown
