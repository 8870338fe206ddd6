"""An engine's chat stream -> Anthropic events: one incremental object without I/O.

Text and thinking go out as they come. A tool call goes out once its arguments are whole, because the clients' parsers raise
at the first piece that is no JSON, and because a call that max_tokens cuts off must not look complete; meanwhile the
usage updates are real events that keep watchdogs quiet. What comes while a call is incomplete waits behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pod.bridge import errors, halves, sse
from pod.bridge.answers import (
    Stop,
    failed_finish,
    id_in,
    known_finish,
    later_usage,
    message_of,
    ran_out,
    repeat_of_thoughts,
    stop_of,
    text_of,
)
from pod.bridge.calls import Calls, PendingCall, ToolUse, is_another, pieces_of
from pod.bridge.codec import BadJsonError, loads, quoted, tolerant_loads
from pod.bridge.errors import ApiError
from pod.bridge.halves import Halves
from pod.bridge.turn import Turn
from pod.bridge.writer import DELTA_END, TEXT, THINKING, MessageWriter

MAX_PLAIN = 16 << 20
# A piece as long as this that equals all the thinking before it is no thought that came twice, but a server that repeats itself.
LONG = 24


def _is_failure(chunk: dict[str, Any]) -> bool:
    """Whether an object without choices is a failure in the shape of older engines, or of the framework below them."""
    return chunk.get("object") == "error" or ("usage" not in chunk and bool(chunk.get("detail")))


class _Held:
    """Text or thinking that waits behind an incomplete call."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []


class MessageStream(MessageWriter):
    """Upstream bytes in, frames for the client out; see the package's docstring for the interface."""

    def __init__(self, turn: Turn, message_id: str, usage_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(turn, message_id, usage_s, clock)
        self._decoder = sse.Decoder()
        self._halves = Halves(halves.chat)
        self._head: bytes | None = b""
        self._plain: bytearray | None = None
        self._all_thoughts: list[str] = []
        self._thought = 0
        self._reasoning_key = ""
        self._queue: list[PendingCall | _Held] = []
        self._by_key: dict[object, PendingCall] = {}
        self._latest: PendingCall | None = None
        self._calls = Calls(turn, message_id, self.notes)
        self._finish: Any = None
        self._matched: Any = None
        self._is_finished = False

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that some upstream bytes make."""
        out: list[bytes] = []
        if self._head is not None:
            data = self._sniffed(data)
        if self._plain is not None:
            if len(self._plain) <= MAX_PLAIN:
                self._plain += data
            return out
        for event in self._decoder.feed(data):
            if self.done:
                break
            self._event(event, out)
        return out

    def flush(self, why: ApiError | None = None) -> list[bytes]:
        """The frames that the end of upstream makes; an answer that was not finished ends with an error: `why`, where it is known."""
        out: list[bytes] = []
        if self._plain is not None and not self.done:
            self._from_plain(out)
        for event in self._decoder.flush():
            if not self.done:
                self._event(event, out)
        if not self.done:
            if self._is_finished:
                self._end(out)
            else:
                has_begun = self._raw_usage or self._pieces or self.started
                out += self.fail(why or (errors.cut_off() if has_begun else errors.empty()))
        return out

    # --- upstream events

    def _sniffed(self, data: bytes) -> bytes:
        """Decides by the first byte whether this is a stream or a plain body, whatever its label says."""
        assert self._head is not None
        head = self._head + data
        first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if not first or head in (b"\xef", b"\xef\xbb"):
            self._head = head
            return b""
        self._head = None
        if first in b"{[<":
            self._plain = bytearray()
        return head

    def _event(self, event: sse.Event, out: list[bytes]) -> None:
        if event.data[:6] == b"[DONE]":
            self._end(out) if self.started or self._is_finished else out.extend(self.fail(errors.empty()))
            return
        try:
            chunk = self._halves.loads(event.data)
        except BadJsonError as error:
            chunk = self._damaged(event, error, out)
        if type(chunk) is not dict:
            return
        choices = chunk.get("choices")
        if chunk.get("error") or event.name == "error" or (not choices and _is_failure(chunk)):
            out += self.fail(errors.from_event(chunk))
            return
        if type(chunk.get("usage")) is dict:
            self._raw_usage = later_usage(self._raw_usage, chunk["usage"])
        if self.engine_id is None:
            self.engine_id = id_in(chunk)
        if not self.started:
            out += self.begin()
        if type(choices) is list:
            for choice in choices:
                if type(choice) is dict and not self.done:
                    self._choice(choice, out)
        if self._usage_s > 0 and not self.done and self._clock() - self._last_usage >= self._usage_s:
            self._report(out)

    def _damaged(self, event: sse.Event, error: BadJsonError, out: list[bytes]) -> Any:
        """What is in an event that is no JSON: a chunk with numbers that JSON has not (log-probabilities can be), several chunks
        without a blank line between them, an error, or nothing of use."""
        if event.name == "error":
            out += self.fail(ApiError(502, errors.text_of(event.data)))
        elif b"\n" in event.data:
            for line in event.data.split(b"\n"):
                if not self.done:
                    self._event(sse.Event(event.name, line, line), out)
        elif event.data.lstrip()[:1] == b"{":
            try:
                return tolerant_loads(event.data, constants=lambda name: None)
            except BadJsonError:
                out += self.fail(ApiError(502, f"The engine sent a damaged chunk: {error}"))
        elif event.data:
            self.notes.append("an upstream event that is no JSON was skipped")
        return None

    def _choice(self, choice: dict[str, Any], out: list[bytes]) -> None:
        delta = choice.get("delta")
        if type(delta) is not dict:
            # Some servers end with the whole message; it counts where nothing came before it.
            whole = choice.get("message")
            delta = whole if type(whole) is dict and not self._pieces else {}
        for key in ("reasoning", "reasoning_content"):
            piece = delta.get(key)
            if piece:
                self._reasoning(text_of(piece), key, out)
                break
        text = delta.get("content")
        if text:
            self._pieces += 1
            if type(text) is str and self._open == TEXT and not self._queue:
                out.append(self._prefix + quoted(text) + DELTA_END)
            else:
                self._piece(TEXT, text_of(text), out)
        calls = delta.get("tool_calls")
        if type(calls) is list:
            for call in calls:
                if type(call) is dict:
                    self._tool(call, choice.get("index"), out)
        elif not text:
            self._older(delta, out)
        finish = choice.get("finish_reason")
        if finish is not None:
            self._finished(finish, choice.get("stop_reason"), out)

    def _older(self, delta: dict[str, Any], out: list[bytes]) -> None:
        """What other engines than vLLM still send: a refusal beside the text, and calls under their first name."""
        if refusal := text_of(delta.get("refusal")):
            self._pieces += 1
            self._piece(TEXT, refusal, out)
        if type(delta.get("tool_calls")) is dict:
            self._tool(delta["tool_calls"], None, out)
        if type(delta.get("function_call")) is dict:
            self._tool({"index": 0, "function": delta["function_call"]}, None, out)

    def _finished(self, finish: Any, matched: Any, out: list[bytes]) -> None:
        finish = known_finish(finish)
        if error := failed_finish(finish):
            out += self.fail(error)
            return
        self._is_finished = True
        if self._finish != "length":
            self._finish = finish
        if matched is not None:
            self._matched = matched

    def _reasoning(self, piece: str, key: str, out: list[bytes]) -> None:
        self._pieces += 1
        is_renamed = bool(self._reasoning_key) and key != self._reasoning_key
        if len(piece) == self._thought and (is_renamed or len(piece) >= LONG) and piece == "".join(self._all_thoughts):
            return  # the whole reasoning once more
        self._reasoning_key = key
        if piece:
            self._all_thoughts.append(piece)
            self._thought += len(piece)
            if not self.turn.hides_thinking:
                self._piece(THINKING, piece, out)

    def _piece(self, kind: str, text: str, out: list[bytes]) -> None:
        if self._queue:
            self._drain(out, at_end=False)
        if self._queue:
            last = self._queue[-1]
            if not isinstance(last, _Held) or last.kind != kind:
                last = _Held(kind)
                self._queue.append(last)
            last.pieces.append(text)
        else:
            self._write(kind, text, out)

    # --- tool calls

    def _tool(self, part: dict[str, Any], choice_index: Any, out: list[bytes]) -> None:
        self._pieces += 1
        function = part.get("function")
        function = function if type(function) is dict else {}
        name = function.get("name")
        name = name if isinstance(name, str) and name else None
        pieces = pieces_of(function.get("arguments"))
        call = self._call_for(part, choice_index, name, pieces, out)
        self._latest = call
        if call.id is None and isinstance(part.get("id"), str) and part["id"]:
            call.id = part["id"]
        if name and name != call.name and not call.pieces:
            call.name = (call.name or "") + name
        call.name = call.name or name
        if not call.is_out:
            call.pieces += pieces
        elif pieces:
            self.notes.append(f"arguments after the end of the call of {call.name} were dropped")

    def _call_for(self, part: dict[str, Any], choice_index: Any, name: str | None, pieces: list[str], out: list[bytes]) -> PendingCall:
        index, call_id = part.get("index"), part.get("id") or None
        key: object = (str(choice_index), index) if isinstance(index, int) else call_id if isinstance(call_id, str) else None
        known = self._by_key.get(key) if key is not None else None if name and self._latest and self._latest.is_whole() else self._latest
        if known is not None and not is_another(known, call_id, name, pieces):
            return known
        call = PendingCall()
        if self._queue:
            self._drain(out, at_end=False)
        self._queue.append(call)
        if key is not None:
            self._by_key[key] = call
        return call

    def _drain(self, out: list[bytes], *, at_end: bool) -> None:
        """Hands out what waits, up to the first call that may still grow."""
        while self._queue:
            first = self._queue[0]
            if isinstance(first, _Held):
                for piece in first.pieces:
                    self._write(first.kind, piece, out)
            elif at_end or (first.name and first.is_whole()):
                self._hand_out(first, out)
            else:
                return
            self._queue.pop(0)

    def _hand_out(self, call: PendingCall, out: list[bytes]) -> None:
        call.is_out = True
        is_cut = self._finish == "length" and not call.is_whole()
        made = self._calls.made(call.id, call.name, call.pieces, is_cut=is_cut)
        if isinstance(made, ToolUse):
            self._write_tool(made, out)
        elif made:
            self._close_block(out)
            self._write(TEXT, made, out)
            self._close_block(out)

    def _end(self, out: list[bytes]) -> None:
        out += self.begin()
        if self._open is not None and not self._queue and self._halves.is_left("content" if self._open == TEXT else self._reasoning_key):
            self._write(self._open, "\ufffd", out)
        if any(isinstance(held, PendingCall) and not held.is_whole() for held in self._queue) and ran_out(self.usage, self.turn):
            self._finish = "length"
        self._drain(out, at_end=True)
        if not self._has_answer and self._finish != "length" and (text := repeat_of_thoughts(self._all_thoughts, self.notes)):
            self._write(TEXT, text, out)
        self._write_blank(out)
        stop, note = stop_of(self._finish, self._matched, self._calls.count > 0, self.usage, self.turn)
        self.notes += [note] if note else []
        self._stop(stop, out)

    def _from_plain(self, out: list[bytes]) -> None:
        """A body that is no stream: a whole answer, or an error."""
        body = bytes(self._plain or b"")
        try:
            data = loads(body)
            message, notes = message_of(data, self.turn, self.message_id)
        except BadJsonError:
            out += self.fail(ApiError(502, f"The engine's answer is no stream: {errors.text_of(body)[:500]}"))
            return
        except ApiError as error:
            out += self.fail(error)
            return
        self._raw_usage = data.get("usage")
        self.notes += notes
        out += self.begin()
        for block in message["content"]:
            if block["type"] == "tool_use":
                self._write_tool(ToolUse(block["id"], block["name"], pieces_of(block["input"])[0], block.get("raw_arguments")), out)
            else:
                self._write(block["type"], block[block["type"]], out)
        self._stop(Stop(message["stop_reason"], message["stop_sequence"]), out)
