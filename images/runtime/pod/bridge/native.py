"""vLLM's own /v1/messages, mended on the way: its requests made fit for it, its answers for strict clients.

The engine's stream is read and written anew, by the same writer as in translate mode: order, signatures, usage fields, stop
reasons, whole tool calls and error shapes come out the same, and what the engine adds or leaves out does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pod.bridge import errors, halves, sse
from pod.bridge.answers import id_in, message_of, ran_out, repeat_of_thoughts, stop_of, without_thoughts
from pod.bridge.calls import Calls, ToolUse, is_whole, pieces_of
from pod.bridge.codec import BadJsonError
from pod.bridge.errors import ApiError
from pod.bridge.halves import Halves
from pod.bridge.models import Names
from pod.bridge.pdf import PdfReader
from pod.bridge.requests_content import Image, Part
from pod.bridge.requests_messages import AssistantTurn, UserTurn
from pod.bridge.requests_system import SEPARATOR
from pod.bridge.requests_tools import Tool
from pod.bridge.settings import Settings
from pod.bridge.signatures import signature_of
from pod.bridge.translate import Reading, Translation, flag, read, response_format, sampling, thinking_fields, turn_of
from pod.bridge.turn import Turn
from pod.bridge.writer import TEXT, THINKING, MessageWriter

# Newer releases refuse a smaller budget, though the engine behind them would take it.
LEAST_BUDGET = 1024
_FINISH_OF_STOP = {"max_tokens": "length", "tool_use": "tool_calls", "end_turn": "stop", "stop_sequence": "stop", "refusal": "refusal"}


def native_request(body: Any, settings: Settings, names: Names, pdf: PdfReader | None = None,
                   counted: int | None = None) -> Translation:  # fmt: skip
    """The request for the engine's /v1/messages; `counted` as in `translate.read`. Raises InvalidRequestError."""
    reading = read(body, settings, names, pdf, counted)
    stream = flag(body, "stream")
    native: dict[str, Any] = {"model": reading.match.upstream_name, "max_tokens": reading.max_tokens, "messages": _messages(reading)}
    if reading.system:
        native["system"] = SEPARATOR.join(reading.system)
    chosen = sampling(body)
    if "stop" in chosen:
        chosen["stop_sequences"] = chosen.pop("stop")
    native.update(chosen)
    if reading.tools:
        native["tools"] = [_tool(tool) for tool in reading.tools]
        native.update(_choice(reading))
    native.update(_thinking(reading, body))
    if stream:
        native["stream"] = True
    return Translation(native, turn_of(reading, body, settings, stream), reading.match.model, tuple(reading.notes))


def native_count_request(body: Any, settings: Settings, names: Names, pdf: PdfReader | None = None,
                         counted: int | None = None) -> Translation:  # fmt: skip
    """The request for the engine's /v1/messages/count_tokens."""
    reading = read(body, settings, names, pdf, counted, counting=True)
    native: dict[str, Any] = {"model": reading.match.upstream_name, "messages": _messages(reading)}
    if reading.system:
        native["system"] = SEPARATOR.join(reading.system)
    if reading.tools:
        native["tools"] = [_tool(tool) for tool in reading.tools]
        native.update(_choice(reading))
    if kwargs := thinking_fields(reading, is_answered=False).get("chat_template_kwargs"):
        native["chat_template_kwargs"] = kwargs
    return Translation(native, turn_of(reading, body, settings, False), reading.match.model, tuple(reading.notes))


def _messages(reading: Reading) -> list[dict[str, Any]]:
    return [_assistant(turn) if isinstance(turn, AssistantTurn) else _user(turn) for turn in reading.conversation.turns]


def _assistant(turn: AssistantTurn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": text, "signature": signature_of(text)} for text in turn.thoughts]
    content += [{"type": "text", "text": text} for text in turn.texts]
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in turn.calls]
    return {"role": "assistant", "content": content}


def _user(turn: UserTurn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": result.id, "content": result.text, "is_error": result.is_error} for result in turn.results
    ]
    parts: list[Part] = [image for result in turn.results for image in result.images]
    content += [_part(part) for part in [*parts, *turn.parts]]
    return {"role": "user", "content": content or [{"type": "text", "text": ""}]}


def _part(part: Part) -> dict[str, Any]:
    if not isinstance(part, Image):
        return {"type": "text", "text": part}
    if not part.url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    media_type, _, data = part.url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _tool(tool: Tool) -> dict[str, Any]:
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "input_schema": tool.schema}


def _choice(reading: Reading) -> dict[str, Any]:
    choice = reading.choice
    if choice.kind is None:
        return {}
    named = {} if choice.name is None else {"name": choice.name}
    parallel = {"disable_parallel_tool_use": True} if choice.one_at_most else {}
    return {"tool_choice": {"type": choice.kind, **named, **parallel}}


def _thinking(reading: Reading, body: dict[str, Any]) -> dict[str, Any]:
    fields = thinking_fields(reading, is_answered=True)
    native: dict[str, Any] = {}
    if kwargs := fields.get("chat_template_kwargs"):
        native["chat_template_kwargs"] = kwargs
    budget = fields.get("thinking_token_budget")
    if reading.thinking.enabled is False:
        native["thinking"] = {"type": "disabled"}
    elif isinstance(budget, int) and LEAST_BUDGET <= budget < (reading.max_tokens or 0):
        native["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif reading.thinking.enabled:
        native["thinking"] = {"type": "adaptive"}
    config: dict[str, Any] = {"effort": reading.thinking.level} if reading.thinking.level else {}
    form = response_format(body)
    if form is not None and form["type"] == "json_schema":
        config["format"] = {"type": "json_schema", "schema": form["json_schema"]["schema"]}
    return {**native, "output_config": config} if config else native


def _usage(raw: Any, before: Any) -> Any:
    """Anthropic's usage in the engine's words; what a later event leaves out stays as it was."""
    if not isinstance(raw, dict):
        return before
    known = dict(before) if isinstance(before, dict) else {}
    values = {key: value for key, value in raw.items() if isinstance(value, int) and not isinstance(value, bool) and value >= 0}
    if "output_tokens" in values:
        known["completion_tokens"] = values["output_tokens"]
    details = dict(known.get("prompt_tokens_details", {}))
    for name, key in (("cached_tokens", "cache_read_input_tokens"), ("created_cache_tokens", "cache_creation_input_tokens")):
        if key in values:
            details[name] = values[key]
    if details:
        known["prompt_tokens_details"] = details
    if "input_tokens" in values:
        cache = values.get("cache_read_input_tokens", 0) + values.get("cache_creation_input_tokens", 0)
        known["prompt_tokens"] = values["input_tokens"] + cache
    return known


class NativeStream(MessageWriter):
    """The engine's Anthropic stream in, a strict one out; the interface of events.MessageStream."""

    def __init__(self, turn: Turn, message_id: str, usage_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(turn, message_id, usage_s, clock)
        self._decoder = sse.Decoder()
        self._halves = Halves(halves.native)
        self._calls = Calls(turn, message_id, self.notes)
        self._tools: dict[Any, tuple[Any, Any, list[str]]] = {}
        self._all_thoughts: list[str] = []
        self._unsure: list[tuple[Any, Any, list[str]]] = []
        self._upstream_stop: tuple[Any, Any] = (None, None)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that some upstream bytes make."""
        out: list[bytes] = []
        for event in self._decoder.feed(data):
            if not self.done:
                self._event(event, out)
        return out

    def flush(self, why: ApiError | None = None) -> list[bytes]:
        """The frames that the end of upstream makes; an answer that was not finished ends with an error: `why`, where it is known."""
        out: list[bytes] = []
        for event in self._decoder.flush():
            if not self.done:
                self._event(event, out)
        if not self.done and self._upstream_stop[0] is not None:
            self._end(out)
        return out if self.done else out + self.fail(why or (errors.cut_off() if self.started else errors.empty()))

    def _event(self, event: sse.Event, out: list[bytes]) -> None:
        try:
            data = self._halves.loads(event.data)
        except BadJsonError as error:
            if event.data.lstrip()[:1] == b"{":
                out += self.fail(ApiError(502, f"The engine sent a damaged event: {error}"))
            return
        if not isinstance(data, dict):
            return
        kind = data.get("type")
        if kind == "error" or event.name == "error" or (kind is None and data.get("error")):
            out += self.fail(errors.from_event(data))
        elif kind == "message_start":
            message = data.get("message")
            self.engine_id = id_in(message)
            self._raw_usage = _usage(message.get("usage") if isinstance(message, dict) else None, self._raw_usage)
            out += self.begin()
        elif kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            out += self.begin()
            self._block_event(str(kind), data, out)
        elif kind == "message_delta":
            delta = data.get("delta")
            self._raw_usage = _usage(data.get("usage"), self._raw_usage)
            if isinstance(delta, dict) and delta.get("stop_reason") is not None:
                self._upstream_stop = (delta["stop_reason"], delta.get("stop_sequence"))
        elif kind == "message_stop" and self.started:
            self._end(out)
        if self._usage_s > 0 and self.started and not self.done and self._clock() - self._last_usage >= self._usage_s:
            self._report(out)

    def _block_event(self, kind: str, data: dict[str, Any], out: list[bytes]) -> None:
        index = data.get("index") if isinstance(data.get("index"), int) else None
        if kind == "content_block_stop":
            self._stopped(index, out)
            return
        block = data.get("content_block" if kind == "content_block_start" else "delta")
        if not isinstance(block, dict):
            return
        if kind == "content_block_start":
            self._show_unsure(out, is_cut=False)
        if block.get("type") == "tool_use":
            start = block.get("input")
            self._tools[index] = (block.get("id"), block.get("name"), pieces_of(start) if start else [])
        elif isinstance(block.get("partial_json"), str) and index in self._tools:
            self._pieces += 1
            self._tools[index][2].append(block["partial_json"])
        for key in (THINKING, TEXT):
            text = block.get(key)
            if isinstance(text, str) and text:
                self._pieces += 1
                self._all_thoughts += [text] if key == THINKING else []
                if key == TEXT or not self.turn.hides_thinking:
                    self._write(key, text, out)

    def _stopped(self, index: int | None, out: list[bytes]) -> None:
        """A whole call goes out; one that is not may have been cut off, which the engine says only later."""
        if index not in self._tools:
            return
        call = self._tools.pop(index)
        if is_whole(call[2]):
            self._show(call, out, is_cut=False)
        else:
            self._unsure.append(call)

    def _show_unsure(self, out: list[bytes], *, is_cut: bool) -> None:
        calls, self._unsure = self._unsure, []
        for call in calls:
            self._show(call, out, is_cut=is_cut)

    def _show(self, call: tuple[Any, Any, list[str]], out: list[bytes], *, is_cut: bool) -> None:
        made = self._calls.made(*call, is_cut=is_cut)
        if isinstance(made, ToolUse):
            self._write_tool(made, out)
        elif made:
            self._close_block(out)
            self._write(TEXT, made, out)
            self._close_block(out)

    def _end(self, out: list[bytes]) -> None:
        out += self.begin()
        reason, sequence = self._upstream_stop
        finish = _FINISH_OF_STOP.get(reason, reason) if isinstance(reason, str) else None
        self._unsure += self._tools.values()
        if self._unsure and ran_out(self.usage, self.turn):
            finish = "length"
        self._show_unsure(out, is_cut=finish == "length")
        if not self._has_answer and finish != "length" and (text := repeat_of_thoughts(self._all_thoughts, self.notes)):
            self._write(TEXT, text, out)
        self._write_blank(out)
        stop, note = stop_of(finish, sequence, self._calls.count > 0, self.usage, self.turn)
        self.notes += [note] if note else []
        self._stop(stop, out)


def mended_message(data: Any, turn: Turn, message_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The engine's whole Anthropic message, mended, and notes. Raises ApiError where it is an error or none."""
    blocks = data.get("content") if isinstance(data, dict) else None
    if not isinstance(blocks, list):
        is_error = isinstance(data, dict) and (data.get("error") or data.get("type") == "error")
        raise errors.from_event(data) if is_error else ApiError(502, "The engine's answer has no message.")
    known = [block for block in blocks if isinstance(block, dict)]
    calls = [
        {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input") or {}}}
        for block in known if block.get("type") == "tool_use"
    ]  # fmt: skip
    reason = data.get("stop_reason")
    choice = {
        "message": {
            "reasoning": "".join(str(block.get("thinking") or "") for block in known if block.get("type") == "thinking"),
            "content": "".join(str(block.get("text") or "") for block in known if block.get("type") == "text"),
            "tool_calls": calls,
        },
        "finish_reason": _FINISH_OF_STOP.get(reason, reason) if isinstance(reason, str) else None,
        "stop_reason": data.get("stop_sequence"),
    }  # fmt: skip
    message, notes = message_of({"choices": [choice], "usage": _usage(data.get("usage"), None)}, turn, message_id)
    return without_thoughts(message, turn), notes
