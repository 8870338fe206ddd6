"""An Anthropic request -> the engine's chat request, and the engine's whole answer -> an Anthropic message. Pure.

Left out on purpose, because no engine knows them: cache_control (the engine caches by itself), metadata (it identifies a
person), container, service_tier, betas. Each of the last ones is named in the notes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pod.bridge import requests_tools as tools_
from pod.bridge.answers import message_of, without_thoughts
from pod.bridge.codec import BadJsonError, dumps, loads
from pod.bridge.errors import InvalidRequestError
from pod.bridge.models import Match, Names
from pod.bridge.pdf import PdfReader
from pod.bridge.requests_content import Image, Part, Reader
from pod.bridge.requests_deferred import known
from pod.bridge.requests_editing import edited, edits_of
from pod.bridge.requests_messages import AssistantTurn, Conversation, UserTurn, conversation_of
from pod.bridge.requests_system import SEPARATOR, system_texts
from pod.bridge.requests_thinking import Thinking, below, thinking_of
from pod.bridge.settings import Model, Settings
from pod.bridge.size import estimate
from pod.bridge.turn import Turn

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
_UNUSED = ("container", "mcp_servers", "service_tier")


@dataclasses.dataclass(frozen=True)
class Translation:
    """A request for the engine. `notes` say what was changed or left out, for the trace."""

    body: dict[str, Any]
    turn: Turn
    model: Model
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Reading:
    """An Anthropic request, read and checked; `max_tokens` None where it may be absent and is, `estimated` the input in tokens."""

    match: Match
    requested: str
    max_tokens: int | None
    system: list[str]
    conversation: Conversation
    tools: list[tools_.Tool]
    choice: tools_.Choice
    thinking: Thinking
    applied_edits: list[dict[str, Any]]
    estimated: int
    notes: list[str]


def parsed_body(data: bytes | bytearray) -> Any:
    """The value in a request's body. Raises InvalidRequestError where it is no JSON."""
    try:
        return loads(data)
    except BadJsonError as error:
        raise InvalidRequestError("", f"The request body is not valid JSON: {error}") from None


def read(body: Any, settings: Settings, names: Names, pdf: PdfReader | None, counted: int | None, *, counting: bool = False) -> Reading:
    """The request in a parsed body, with its context edits applied: by the input tokens that the tokenizer `counted` before them, or
    by an estimate. `counting` asks for no max_tokens. Raises InvalidRequestError."""
    if not isinstance(body, dict):
        raise InvalidRequestError("", "The request body must be a JSON object.")
    requested = body.get("model")
    if not isinstance(requested, str) or not requested:
        raise InvalidRequestError("model", "Field required")
    match = names.resolve(requested)
    max_tokens = None if counting and "max_tokens" not in body else _max_tokens(body)
    if "messages" not in body:
        raise InvalidRequestError("messages", "Field required")
    conversation = conversation_of(body["messages"], Reader(match.model, pdf=pdf))
    tools, missing = tools_.tools_of(body.get("tools"), conversation.added_tools)
    tools = known(tools, body)
    thinking = thinking_of(body, max_tokens, match.model, settings)
    system = system_texts(body.get("system")) + conversation.system + ([tools_.missing_note(missing)] if missing else [])
    edits, estimated = edits_of(body), estimate(body)
    applied = edited(conversation, edits, body, estimated, counted)
    notes = [*conversation.notes, *edits.notes, *thinking.notes, *(f"{key} is not used here" for key in _UNUSED if body.get(key))]
    notes += [f"{name}: a tool that only Anthropic's servers run" for name in missing]
    if not match.known:
        notes.append(f"model {requested[:100]} is not known; {match.upstream_name} answers")
    choice = tools_.choice_of(body.get("tool_choice"), tools, missing)
    return Reading(match, requested, max_tokens, system, conversation, tools, choice, thinking, applied,
                   max(1, estimated - sum(edit["cleared_input_tokens"] for edit in applied)), notes)  # fmt: skip


def _max_tokens(body: dict[str, Any]) -> int:
    value = body.get("max_tokens")
    if value is None:
        raise InvalidRequestError("max_tokens", "Field required")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequestError("max_tokens", "must be a whole number above 0")
    return value


def chat_request(body: Any, settings: Settings, names: Names, pdf: PdfReader | None = None, counted: int | None = None) -> Translation:
    """The request for /v1/chat/completions; `counted` as in `read`. Raises InvalidRequestError for what no model could answer."""
    reading = read(body, settings, names, pdf, counted)
    stream = flag(body, "stream")
    chat: dict[str, Any] = {"model": reading.match.upstream_name, "messages": chat_messages(reading), "max_tokens": reading.max_tokens}
    chat.update(sampling(body))
    if reading.tools:
        chat["tools"] = [tools_.chat_tool(tool) for tool in reading.tools]
        chat.update(tools_.chat_choice(reading.choice))
    if (form := response_format(body)) is not None:
        chat["response_format"] = form
    chat.update(thinking_fields(reading, is_answered=True))
    if stream:
        chat.update(stream=True, stream_options=dict(STREAM_OPTIONS))
    return Translation(chat, turn_of(reading, body, settings, stream), reading.match.model, tuple(reading.notes))


def turn_of(reading: Reading, body: dict[str, Any], settings: Settings, stream: bool) -> Turn:
    """What the answer has to know of the request."""
    return Turn(
        model=reading.requested, stream=stream, max_tokens=reading.max_tokens or 0, window=reading.match.model.context_window,
        estimate=reading.estimated, one_tool=reading.choice.one_at_most, forced_tool=reading.choice.name,
        applied_edits=tuple(reading.applied_edits), omits_thinking=reading.thinking.is_omitted, guard=settings.guard,
        hides_thinking=reading.thinking.enabled is False, stop_sequences=tuple(sampling(body).get("stop", ())),
        known_calls=frozenset(call.id for turn in reading.conversation.turns if isinstance(turn, AssistantTurn) for call in turn.calls),
    )  # fmt: skip


def chat_messages(reading: Reading) -> list[dict[str, Any]]:
    """The messages for the engine's chat template."""
    messages: list[dict[str, Any]] = []
    if reading.system:
        messages.append({"role": "system", "content": SEPARATOR.join(reading.system)})
    for turn in reading.conversation.turns:
        messages += [_chat_assistant(turn)] if isinstance(turn, AssistantTurn) else _chat_user(turn)
    return messages


def _chat_assistant(turn: AssistantTurn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(turn.texts)}
    if turn.thoughts:
        # The engine reads `reasoning`; engines before the rename read `reasoning_content`.
        message["reasoning"] = message["reasoning_content"] = "\n".join(turn.thoughts)
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dumps(call.input).decode()}}
            for call in turn.calls
        ]  # fmt: skip
    return message


def _chat_user(turn: UserTurn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": result.id, "content": result.text} for result in turn.results]
    shown = [result for result in turn.results if result.images]
    parts: list[Part] = []
    for result in shown:
        parts += [f"[Image from tool call {result.id}]"] if len(shown) > 1 else []
        parts += result.images
    parts += turn.parts
    if not parts:
        return messages or [{"role": "user", "content": ""}]
    if any(isinstance(part, Image) for part in parts):
        return [*messages, {"role": "user", "content": [_chat_part(part) for part in parts]}]
    return [*messages, {"role": "user", "content": SEPARATOR.join(map(str, parts))}]


def _chat_part(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "text", "text": part}


def flag(body: dict[str, Any], key: str) -> bool:
    """A field that is true, false or absent. Raises InvalidRequestError."""
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequestError(key, "must be true or false")
    return bool(value)


def sampling(body: dict[str, Any]) -> dict[str, Any]:
    """The sampling fields and `stop`; what the client leaves out is the engine's own default. Raises InvalidRequestError."""
    chosen: dict[str, Any] = {}
    for key in ("temperature", "top_p", "top_k"):
        value = body.get(key)
        if value is None:
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InvalidRequestError(key, "must be a number")
        chosen[key] = value
    stops = body.get("stop_sequences")
    if stops is None:
        return chosen
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise InvalidRequestError("stop_sequences", "must be a list of strings")
    return {**chosen, "stop": [stop for stop in stops if stop]} if any(stops) else chosen


def response_format(body: dict[str, Any]) -> dict[str, Any] | None:
    """The structured output asked for under either of its names. Raises InvalidRequestError."""
    config = body.get("output_config")
    form, route = (config or {}).get("format"), "output_config.format"
    if form is None:
        form, route = body.get("output_format"), "output_format"
    if form is None:
        return None
    if not isinstance(form, dict):
        raise InvalidRequestError(route, "must be an object")
    if form.get("type") == "json_object":
        return {"type": "json_object"}
    if form.get("type") != "json_schema":
        raise InvalidRequestError(f"{route}.type", "must be json_schema")
    if not isinstance(form.get("schema"), dict):
        raise InvalidRequestError(f"{route}.schema", "must be an object")
    name = form.get("name")
    return {
        "type": "json_schema",
        "json_schema": {"name": name if isinstance(name, str) and name else "answer", "schema": form["schema"], "strict": True},
    }


def thinking_fields(reading: Reading, *, is_answered: bool) -> dict[str, Any]:
    """The fields that tell the template how to end the prompt, and with `is_answered` those that limit the thinking."""
    thinking, model = reading.thinking, reading.match.model
    enabled = thinking.enabled
    fields: dict[str, Any] = {}
    if reading.conversation.prefill:
        if thinking.is_explicit:
            raise InvalidRequestError("thinking", "cannot be enabled when the last message is the assistant's, to be continued")
        # A prefilled answer is past its thinking; a parser would take the continuation for thoughts.
        enabled = False if model.reasoning is not False else enabled
        fields = {"add_generation_prompt": False, "continue_final_message": True}
    kwargs = dict(model.template_kwargs)
    if enabled is not None:
        kwargs["enable_thinking"] = enabled
    if kwargs:
        fields["chat_template_kwargs"] = kwargs
    if is_answered and thinking.budget is not None and enabled is not False:
        fields["thinking_token_budget"] = thinking.budget
    if thinking.level is not None:
        fields["reasoning_effort"] = thinking.level
    return fields


def without_budget(chat: dict[str, Any]) -> dict[str, Any]:
    """A chat request without a thinking budget, for an engine that refuses them."""
    return {key: value for key, value in chat.items() if key != "thinking_token_budget"}


def with_max_tokens(chat: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """A chat request with a shorter answer, whose thinking budget stays below it."""
    lowered = {**chat, "max_tokens": max_tokens}
    budget = chat.get("thinking_token_budget")
    if isinstance(budget, int) and budget >= max_tokens:
        lowered["thinking_token_budget"] = below(max_tokens)
    return lowered


def completion_message(data: Any, turn: Turn, message_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The Anthropic message in the engine's parsed answer, and notes. Raises errors.ApiError where it is an error or none."""
    message, notes = message_of(data, turn, message_id)
    return without_thoughts(message, turn), notes
