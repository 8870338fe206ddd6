"""What streams and whole answers have in common: usage and stop reasons; and whole answers."""

from __future__ import annotations

from typing import Any, NamedTuple

from pod.bridge.calls import Calls, ToolUse, pieces_of
from pod.bridge.errors import ApiError, from_event
from pod.bridge.signatures import carrying, signature_of
from pod.bridge.turn import Turn

ONLY_THOUGHTS = "(The model answered inside its reasoning only. It follows.)\n\n"


class Usage(NamedTuple):
    """Tokens as the engine counts them; `cached` None where it does not say. `prompt` is the whole input, also what the cache held
    (`cached`) and what was new and went into it (`created`)."""

    prompt: int
    completion: int
    cached: int | None
    created: int = 0

    def final(self) -> dict[str, int]:
        """The usage of a finished message: the input without what the cache held or took."""
        cached = min(self.cached or 0, self.prompt)
        created = min(self.created, self.prompt - cached)
        return {"input_tokens": self.prompt - cached - created, "cache_creation_input_tokens": created, "cache_read_input_tokens": cached,
                "output_tokens": self.completion}  # fmt: skip

    def first(self) -> dict[str, int]:
        """The usage of a message that begins: nothing is claimed of the cache that is not known."""
        if self.cached is None:
            return {"input_tokens": self.prompt, "output_tokens": self.completion}
        return self.final()


def id_in(data: Any) -> str:
    """The engine's own name for its answer, which its log has; empty where it gives none."""
    found = data.get("id") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


def usage_of(raw: Any, turn: Turn, pieces: int = 0) -> Usage:
    """The engine's usage; where it counts nothing the input is the estimate and the output the number of pieces seen."""
    raw = raw if isinstance(raw, dict) else {}
    prompt, completion = _count(raw.get("prompt_tokens")), _count(raw.get("completion_tokens"))
    details = raw.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens") if isinstance(details, dict) else raw.get("cached_tokens"))
    created = _count(details.get("created_cache_tokens")) if isinstance(details, dict) else None
    return Usage(turn.estimate if prompt is None else prompt, pieces if completion is None else completion, cached, created or 0)


def later_usage(before: Any, usage: dict[str, Any]) -> dict[str, Any]:
    """The usage that counts when an engine sends another one: the later one, but for a count that it has lost on the way."""
    if usage.get("prompt_tokens") or not isinstance(before, dict):
        return usage
    return {**before, **{key: value for key, value in usage.items() if value}}


def _count(value: Any) -> int | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**53 else None


class Stop(NamedTuple):
    """Why a message ended, in Anthropic's words."""

    reason: str
    sequence: str | None = None


# Other engines' words for an answer that the limit of tokens ended.
_FULL = frozenset({"max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS"})
_REFUSED = {"content_filter": Stop("refusal"), "refusal": Stop("refusal")}
_KNOWN = frozenset({"stop", "length", "tool_calls", "function_call", "eos", "end_turn", "stop_sequence"})


def stop_of(finish: Any, matched: Any, has_tool: bool, usage: Usage, turn: Turn) -> tuple[Stop, str | None]:
    """The stop reason, and a note where the engine's own is not known. `matched` is the engine's `stop_reason`: a text where
    a stop sequence ended the answer (the client's own, or one of the model's), else a token id or nothing."""
    if finish == "length":
        is_full = turn.window is not None and usage.completion < turn.max_tokens and usage.prompt + usage.completion >= turn.window
        return Stop("model_context_window_exceeded" if is_full else "max_tokens"), None
    if has_tool:
        return Stop("tool_use"), None
    if finish in _REFUSED if isinstance(finish, str) else False:
        return _REFUSED[finish], None
    if isinstance(matched, str) and matched in turn.stop_sequences:
        return Stop("stop_sequence", matched), None
    known = finish is None or finish in _KNOWN if isinstance(finish, (str, type(None))) else False
    return Stop("end_turn"), None if known else f"finish reason {str(finish)[:100]!r} became end_turn"


def ran_out(usage: Usage, turn: Turn) -> bool:
    """Whether an answer ended because no more was allowed or fitted. A call that it leaves open was cut off, whatever the
    engine says: vLLM 0.27.1 says `tool_calls` at the end of such a stream."""
    return 0 < turn.max_tokens <= usage.completion or (turn.window is not None and usage.prompt + usage.completion >= turn.window)


def known_finish(finish: Any) -> Any:
    """A finish reason in vLLM's words where it has one."""
    return "length" if isinstance(finish, str) and finish in _FULL else finish


def failed_finish(finish: Any) -> ApiError | None:
    """The error that a finish reason stands for."""
    if finish in ("abort", "error", "cancelled") if isinstance(finish, str) else False:
        return ApiError(500, f"The engine ended the answer with {finish!r}.")
    return None


def text_of(content: Any) -> str:
    """The text in an answer's content: a text, or a list of text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return ""


def message_of(data: Any, turn: Turn, message_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The Anthropic message in an engine's whole answer, and notes. Raises ApiError where it is an error or none."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        is_error = isinstance(data, dict) and (data.get("error") or data.get("object") == "error")
        raise from_event(data) if is_error else ApiError(502, "The engine's answer has no message.")
    notes: list[str] = []
    calls = Calls(turn, message_id, notes)
    content: list[dict[str, Any]] = []
    finish, matched = _ending(choices)
    if error := failed_finish(finish):
        raise error
    for choice in choices:
        message = choice.get("message")
        content += _blocks(message if isinstance(message, dict) else {}, calls, finish == "length")
    is_only_thoughts = finish != "length" and all(block["type"] == "thinking" for block in content)
    if is_only_thoughts and (text := repeat_of_thoughts([block["thinking"] for block in content], notes)):
        content.append({"type": "text", "text": text})
    if turn.hides_thinking:
        content = [block for block in content if block["type"] != "thinking"]
    usage = usage_of(data.get("usage"), turn)
    stop, note = stop_of(finish, matched, calls.count > 0, usage, turn)
    notes += [note] if note else []
    return {
        "id": message_id, "type": "message", "role": "assistant", "model": turn.model, "content": content,
        "stop_reason": stop.reason, "stop_sequence": stop.sequence, "usage": usage.final(), **turn.claims,
    }, tuple(notes)  # fmt: skip


def without_thoughts(message: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """The message as its client wants it: thinking blocks without their text where that is to be left out."""
    if not turn.omits_thinking:
        return message
    content = [
        {**block, "thinking": "", "signature": carrying(block["thinking"])} if block["type"] == "thinking" else block
        for block in message["content"]
    ]  # fmt: skip
    return {**message, "content": content}


def _ending(choices: list[dict[str, Any]]) -> tuple[Any, Any]:
    reasons = [known_finish(choice.get("finish_reason")) for choice in choices]
    finish = "length" if "length" in reasons else next((r for r in reasons if failed_finish(r)), reasons[0])
    return finish, next((choice.get("stop_reason") for choice in choices if choice.get("stop_reason") is not None), None)


def _blocks(message: dict[str, Any], calls: Calls, is_cut: bool) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    thinking = text_of(message.get("reasoning")) or text_of(message.get("reasoning_content"))
    if thinking.strip():
        blocks.append({"type": "thinking", "thinking": thinking, "signature": signature_of(thinking)})
    text = text_of(message.get("content")) or text_of(message.get("refusal"))
    if text.strip():
        blocks.append({"type": "text", "text": text})
    found = message.get("tool_calls")
    for call in found if isinstance(found, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            made = calls.made(call.get("id"), function.get("name"), pieces_of(function.get("arguments")), is_cut=is_cut)
            if isinstance(made, ToolUse):
                blocks.append({**made.start(), "input": made.input})
            elif made:
                blocks.append({"type": "text", "text": made})
    if not blocks and text:
        blocks.append({"type": "text", "text": text})
    return blocks


def repeat_of_thoughts(thoughts: list[str], notes: list[str]) -> str:
    """The text for a turn of nothing but reasoning: a client that wants a summary would otherwise find none."""
    text = "".join(thoughts)
    if not text.strip():
        return ""
    notes.append("the answer was reasoning only and is repeated as text")
    return ONLY_THOUGHTS + text
