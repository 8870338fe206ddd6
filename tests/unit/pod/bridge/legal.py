"""Is this a stream that a strict Anthropic client takes? `faults` lists what is wrong with it, in words."""

from __future__ import annotations

import json
from typing import Any

STOP_REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}
DELTA_OF_BLOCK = {"text": {"text_delta": "text"}, "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
                  "tool_use": {"input_json_delta": "partial_json"}}  # fmt: skip
START_OF_BLOCK = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
ERROR_TYPES = {"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error",
               "request_too_large", "rate_limit_error", "api_error", "timeout_error", "overloaded_error"}  # fmt: skip


def frames_of(stream: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The (event name, data) pairs of a stream. Raises ValueError where a frame is not exactly two lines of the right kind."""
    text = stream.decode("utf-8")
    if not text:
        return []
    if not text.endswith("\n\n"):
        raise ValueError("the stream ends inside a frame")
    frames = []
    for frame in text[:-2].split("\n\n"):
        lines = frame.splitlines()  # splits at U+2028, U+2029 and U+0085 too, as some clients do
        if len(lines) != 2 or not lines[0].startswith("event: ") or not lines[1].startswith("data: "):
            raise ValueError(f"no frame of one event and one data line: {frame[:200]!r}")
        data = json.loads(lines[1][6:])
        if data.get("type") != lines[0][7:]:
            raise ValueError(f"event {lines[0][7:]!r} carries the type {data.get('type')!r}")
        frames.append((lines[0][7:], data))
    return frames


class Judge:
    """Reads the frames of one stream in order."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.blocks: list[dict[str, Any]] = []
        self.start: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.deltas: list[dict[str, Any]] = []
        self.stopped = False
        self.pings = 0
        self._open: dict[str, Any] | None = None

    def read(self, name: str, data: dict[str, Any]) -> None:
        """Takes the next frame."""
        if self.stopped or self.error:
            self.faults.append(f"{name} after the end")
        if name == "ping":
            self.pings += 1
        elif name == "error":
            self.error = data.get("error")
            if not isinstance(self.error, dict) or self.error.get("type") not in ERROR_TYPES or not self.error.get("message"):
                self.faults.append(f"error without a known type and a message: {data}")
        elif name == "message_start":
            self._message_start(data)
        elif self.start is None:
            self.faults.append(f"{name} before message_start")
        else:
            reader = getattr(self, f"_{name}", None)
            if reader is None:
                self.faults.append(f"unknown event {name}")
            else:
                reader(data)

    def finish(self) -> None:
        """Says what is missing at the end."""
        if self.error is None and not self.stopped:
            self.faults.append("the stream has neither message_stop nor an error")
        if self.stopped:
            if self._open:
                self.faults.append("a block is still open")
            if not self.deltas or self.deltas[-1]["delta"].get("stop_reason") not in STOP_REASONS:
                self.faults.append("the last message_delta has no stop reason")
            has_tool = any(block["type"] == "tool_use" for block in self.blocks)
            reason = self.deltas[-1]["delta"].get("stop_reason") if self.deltas else None
            if (reason == "tool_use") != has_tool and reason not in ("max_tokens", "model_context_window_exceeded"):
                self.faults.append(f"stop reason {reason} with{'' if has_tool else 'out'} a tool call")

    def _message_start(self, data: dict[str, Any]) -> None:
        if self.start is not None:
            self.faults.append("a second message_start")
        message = self.start = data.get("message", {})
        fixed = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, "stop_sequence": None}
        wrong = [key for key, value in fixed.items() if key not in message or message[key] != value]
        wrong += [key for key in ("id", "model") if not isinstance(message.get(key), str) or not message[key]]
        if wrong:
            self.faults.append(f"message_start is wrong in {wrong}")
        self._usage(message.get("usage"), {"input_tokens", "output_tokens"})

    def _usage(self, usage: Any, needed: set[str]) -> None:
        if not isinstance(usage, dict) or needed - usage.keys():
            self.faults.append(f"usage lacks one of {sorted(needed)}: {usage}")
            return
        for key, value in usage.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                self.faults.append(f"usage.{key} is {value!r}")

    def _content_block_start(self, data: dict[str, Any]) -> None:
        block = dict(data.get("content_block", {}))
        if self._open is not None:
            self.faults.append("two blocks are open")
        if data.get("index") != len(self.blocks):
            self.faults.append(f"block {len(self.blocks)} has index {data.get('index')}")
        start = START_OF_BLOCK.get(block.get("type", ""))
        if start is None or any(key not in block or block[key] != value for key, value in start.items()):
            self.faults.append(f"a block starts as {block}")
        if block.get("type") == "tool_use" and not (block.get("id") and block.get("name")):
            self.faults.append("a tool_use without id or name")
        block["pieces"], block["json"] = [], ""
        self.blocks.append(block)
        self._open = block

    def _content_block_delta(self, data: dict[str, Any]) -> None:
        block, delta = self._open, data.get("delta", {})
        if block is None or data.get("index") != len(self.blocks) - 1:
            self.faults.append(f"a delta for block {data.get('index')}, which is not open")
            return
        key = DELTA_OF_BLOCK.get(block["type"], {}).get(delta.get("type"))
        if key is None or not isinstance(delta.get(key), str):
            self.faults.append(f"{delta.get('type')} in a {block['type']} block")
            return
        if block["pieces"] and block["pieces"][-1] == "signature_delta":
            self.faults.append("a delta after the signature")
        block["pieces"].append(delta["type"])
        if key == "partial_json":
            block["json"] += delta[key]
        else:
            block[key] += delta[key]

    def _content_block_stop(self, data: dict[str, Any]) -> None:
        block, self._open = self._open, None
        if block is None or data.get("index") != len(self.blocks) - 1:
            self.faults.append(f"a stop for block {data.get('index')}, which is not open")
            return
        if block["type"] == "thinking" and not block["signature"]:
            self.faults.append("a thinking block without a signature")
        if block["type"] == "text" and not block["text"]:
            self.faults.append("an empty text block")
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
            if not isinstance(block["input"], dict):
                self.faults.append(f"the input of {block['name']} is no object")

    def _message_delta(self, data: dict[str, Any]) -> None:
        if self.deltas and self.deltas[-1]["delta"].get("stop_reason") is not None:
            self.faults.append("a message_delta after the one with the stop reason")
        self.deltas.append(data)
        if "stop_reason" not in data.get("delta", {}) or "stop_sequence" not in data["delta"]:
            self.faults.append("a message_delta without stop_reason or stop_sequence")
        before = self.deltas[-2]["usage"]["output_tokens"] if len(self.deltas) > 1 else 0
        self._usage(data.get("usage"), {"output_tokens"})
        if isinstance(data.get("usage"), dict) and data["usage"].get("output_tokens", 0) < before:
            self.faults.append("output_tokens went down")

    def _message_stop(self, data: dict[str, Any]) -> None:
        self.stopped = True
        if data != {"type": "message_stop"}:
            self.faults.append("message_stop has fields")


def judged(stream: bytes) -> Judge:
    """The judge after the whole stream."""
    judge = Judge()
    try:
        for name, data in frames_of(stream):
            judge.read(name, data)
        judge.finish()
    except (ValueError, UnicodeDecodeError) as error:
        judge.faults.append(str(error))
    return judge


def faults(stream: bytes) -> list[str]:
    """What is wrong with a stream; empty for a legal one."""
    return judged(stream).faults
