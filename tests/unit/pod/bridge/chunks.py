"""Chunks as engines send them, and a short way to run them through a stream."""

from __future__ import annotations

import json
from typing import Any

from pod.bridge.events import MessageStream
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import Clock

DONE = b"data: [DONE]\n\n"


Block = list[Any]


def chunk(delta: dict[str, Any], finish: str | None = None, usage: Any = None, **more: Any) -> bytes:
    return (
        b"data: "
        + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}], "usage": usage}).encode()
        + b"\n\n"
    )


def call(index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    part: dict[str, Any] = {"function": {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}}
    part.update({key: value for key, value in (("index", index), ("id", call_id)) if value is not None})
    return part


def calling(*parts: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(parts)})


def run(*pieces: bytes, turn: Turn | None = None) -> tuple[list[Block], dict[str, Any], MessageStream]:
    stream = MessageStream(turn or Turn("m", max_tokens=100), "msg_1", usage_s=0, clock=Clock())
    made = b"".join(frame for piece in pieces for frame in stream.feed(piece)) + b"".join(stream.flush())
    judge = judged(made)
    assert judge.faults == [], made
    blocks = [[b["type"], b["name"], b["input"]] if b["type"] == "tool_use" else [b["type"], b[b["type"]]] for b in judge.blocks]
    return blocks, judge.deltas[-1] if judge.deltas else {}, stream


def reason(ending: dict[str, Any]) -> str:
    found = ending["delta"]["stop_reason"]
    assert isinstance(found, str)
    return found
