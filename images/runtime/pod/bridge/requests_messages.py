"""Messages -> turns: what was said by whom, with each tool result beside its call.

A system message in the middle of a conversation becomes a reminder inside the user's turn where it stands. Many chat
templates refuse a second system message, and to move it to the top would make all that follows new to the prefix cache.
One before the first turn joins the system prompt. Roles that nobody knows are the user's. Neighbours of one side are one
turn, because templates want turns to alternate.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

from pod.bridge.calls import engine_id
from pod.bridge.errors import InvalidRequestError
from pod.bridge.requests_content import Image, Part, Reader, parts_of, tool_result_parts
from pod.bridge.requests_system import system_texts
from pod.bridge.signatures import carried_by

NOT_RUN = "(no result: this call was not carried out)"


class Call(NamedTuple):
    """A tool call of the assistant's."""

    id: str
    name: str
    input: dict[str, Any]


class Result(NamedTuple):
    """What came back for a call."""

    id: str
    text: str
    images: list[Image]
    is_error: bool


@dataclasses.dataclass
class AssistantTurn:
    """What the model said: its thinking, its texts, its calls."""

    thoughts: list[str] = dataclasses.field(default_factory=list)
    texts: list[str] = dataclasses.field(default_factory=list)
    calls: list[Call] = dataclasses.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return not (self.thoughts or self.texts or self.calls)


@dataclasses.dataclass
class UserTurn:
    """What came back from tools, in the order of the calls, then what the user said."""

    results: list[Result] = dataclasses.field(default_factory=list)
    parts: list[Part] = dataclasses.field(default_factory=list)


Turn = AssistantTurn | UserTurn


@dataclasses.dataclass
class Conversation:
    """All turns; `system` are texts that belong to the system prompt, `added_tools` (route, definition) of tools that came
    along the way. `prefill`: the last turn is the assistant's, to be continued."""

    turns: list[Turn]
    system: list[str]
    added_tools: list[tuple[str, Any]]
    notes: list[str]

    @property
    def prefill(self) -> bool:
        """Whether the answer continues the last turn."""
        return bool(self.turns) and isinstance(self.turns[-1], AssistantTurn)


def conversation_of(messages: Any, reader: Reader) -> Conversation:
    """The conversation in a request's messages. Raises InvalidRequestError, which names the message and block."""
    if not isinstance(messages, list):
        raise InvalidRequestError("messages", "must be a list")
    conversation = Conversation([], [], [], [])
    last = _last_user_side(messages)
    for i, message in enumerate(messages):
        role, content = _role_and_content(message, f"messages.{i}")
        at = reader._replace(is_last=i >= last)
        if role == "assistant":
            _add_assistant(conversation, content, f"messages.{i}.content", at)
        elif role in ("system", "developer"):
            _add_system(conversation, content, f"messages.{i}.content")
        else:
            _add_user(conversation, content, f"messages.{i}.content", at)
    _complete(conversation)
    if not conversation.turns:
        raise InvalidRequestError("messages", "at least one message is required")
    return conversation


def _role_and_content(message: Any, route: str) -> tuple[str, Any]:
    if not isinstance(message, dict):
        raise InvalidRequestError(route, "must be an object")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidRequestError(f"{route}.role", "must be user or assistant")
    if "content" not in message:
        raise InvalidRequestError(f"{route}.content", "Field required")
    return role, message["content"]


def _last_user_side(messages: list[Any]) -> int:
    """The index at which the turn starts that the answer is for."""
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    while roles and roles[-1] == "assistant":
        roles.pop()
    return next((i + 1 for i in reversed(range(len(roles))) if roles[i] == "assistant"), 0)


def _user_turn(conversation: Conversation) -> UserTurn:
    if not conversation.turns or not isinstance(conversation.turns[-1], UserTurn):
        conversation.turns.append(UserTurn())
    turn = conversation.turns[-1]
    assert isinstance(turn, UserTurn)
    return turn


def _add_system(conversation: Conversation, content: Any, route: str) -> None:
    if isinstance(content, list):
        for i, block in enumerate(content):
            if isinstance(block, dict) and block.get("type") == "tool_addition":
                conversation.added_tools.append((f"{route}.{i}.tool", block.get("tool")))
    texts = system_texts(content, route)
    if not conversation.turns:
        conversation.system += texts
    elif texts:
        text = "\n\n".join(texts)
        _user_turn(conversation).parts.append(f"<system-reminder>\n{text}\n</system-reminder>")


def _add_user(conversation: Conversation, content: Any, route: str, reader: Reader) -> None:
    previous = conversation.turns[-1] if conversation.turns else None
    turn = _user_turn(conversation)
    calls = _open_calls(conversation, turn) if previous else []
    blocks = enumerate(content) if isinstance(content, list) else [(None, content)]
    for i, block in blocks:
        at = route if i is None else f"{route}.{i}"
        if isinstance(block, dict) and block.get("type") == "tool_result":
            _add_result(conversation, turn, calls, block, at, reader)
        else:
            turn.parts += parts_of(block, at, reader)


def _open_calls(conversation: Conversation, turn: UserTurn) -> list[str]:
    before = conversation.turns[-2] if len(conversation.turns) > 1 else None
    calls = [call.id for call in before.calls] if isinstance(before, AssistantTurn) else []
    for result in turn.results:
        if result.id in calls:
            calls.remove(result.id)
    return calls


def _add_result(conversation: Conversation, turn: UserTurn, calls: list[str], block: dict[str, Any], route: str, reader: Reader) -> None:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidRequestError(f"{route}.tool_use_id", "must be a non-empty string")
    call_id = engine_id(call_id)
    text, images = tool_result_parts(block, route, reader)
    if call_id in calls:
        calls.remove(call_id)
        turn.results.append(Result(call_id, text, images, block.get("is_error") is True))
    else:
        conversation.notes.append(f"{route}: answers no open call and was kept as text")
        turn.parts += [f"[Result of an earlier tool call]\n{text}", *images]


def _add_assistant(conversation: Conversation, content: Any, route: str, reader: Reader) -> None:
    if not conversation.turns or not isinstance(conversation.turns[-1], AssistantTurn):
        conversation.turns.append(AssistantTurn())
    turn = conversation.turns[-1]
    assert isinstance(turn, AssistantTurn)
    for i, block in enumerate(content) if isinstance(content, list) else [(None, content)]:
        at = route if i is None else f"{route}.{i}"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            turn.calls.append(_call(block, at))
        elif kind == "thinking":
            thinking = block.get("thinking") or carried_by(block.get("signature"))
            if not isinstance(thinking, str):
                raise InvalidRequestError(f"{at}.thinking", "must be a string")
            turn.thoughts += [thinking] if thinking else []
        elif kind != "redacted_thinking":
            turn.texts += [part if isinstance(part, str) else "[An image stood here.]" for part in parts_of(block, at, reader)]
    if turn.is_empty:
        conversation.turns.pop()


def _call(block: dict[str, Any], route: str) -> Call:
    for key in ("id", "name"):
        if not isinstance(block.get(key), str) or not block[key]:
            raise InvalidRequestError(f"{route}.{key}", "must be a non-empty string")
    if not isinstance(block.get("input"), dict):
        raise InvalidRequestError(f"{route}.input", "must be an object")
    return Call(engine_id(block["id"]), block["name"], block["input"])


def _complete(conversation: Conversation) -> None:
    """Gives each call a result, in the order of the calls: many templates pair them by position alone."""
    if conversation.turns and isinstance(conversation.turns[-1], AssistantTurn):
        last = conversation.turns[-1]
        if last.calls:
            conversation.turns.append(UserTurn())
        elif not last.texts:
            conversation.turns.pop()
    for before, turn in itertools.pairwise(conversation.turns):
        if isinstance(before, AssistantTurn) and isinstance(turn, UserTurn) and before.calls:
            by_id: dict[str, list[Result]] = {}
            for result in turn.results:
                by_id.setdefault(result.id, []).append(result)
            turn.results = [by_id[call.id].pop(0) if by_id.get(call.id) else _unanswered(conversation, call) for call in before.calls]


def _unanswered(conversation: Conversation, call: Call) -> Result:
    conversation.notes.append(f"call {call.id} has no result")
    return Result(call.id, NOT_RUN, [], True)
