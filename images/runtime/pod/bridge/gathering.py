"""A stream where a whole answer was asked for: servers in front of an engine exist that always stream."""

from __future__ import annotations

from typing import Any

from pod.bridge import sse
from pod.bridge.codec import loads
from pod.bridge.events import MessageStream
from pod.bridge.native import NativeStream

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def looks_streamed(body: bytes) -> bool:
    """Whether a body is a stream of events, whatever its label says."""
    return body.lstrip(b"\xef\xbb\xbf \r\n\t").startswith((b"data:", b"event:", b"id:", b":"))


def gathered(stream: MessageStream | NativeStream, body: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The message in the whole `body` of a stream, and notes. Raises ApiError where it ends with one."""
    frames = [*stream.feed(body), *stream.flush()]
    if stream.failure is not None:
        raise stream.failure
    message: dict[str, Any] = {}
    pieces: list[str] = []
    for event in sse.Decoder().feed(b"".join(frames)):
        data = loads(event.data)
        kind = data["type"]
        if kind == "message_start":
            message = data["message"]
        elif kind == "content_block_start":
            message["content"].append(data["content_block"])
            pieces = []
        elif kind == "content_block_delta":
            delta, block = data["delta"], message["content"][-1]
            if delta["type"] == "input_json_delta":
                pieces.append(delta["partial_json"])
            else:
                block[_TEXTS[delta["type"]]] += delta[_TEXTS[delta["type"]]]
        elif kind == "content_block_stop" and pieces:
            message["content"][-1]["input"] = loads("".join(pieces) or "{}")
        elif kind == "message_delta":
            message.update(data["delta"])
            message["usage"] = data["usage"]
    return message, (*stream.notes, "the engine streamed although it was asked for a whole answer")
