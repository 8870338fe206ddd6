"""`context_management.edits`: what a client wants cleared out of an old conversation before the model reads it.

clear_thinking_20251015   keeps the thinking of the last turns of the assistant (`keep`, 1), a turn reaching from what a user says
                          to the next time that a user says something, however many tools are called between
clear_tool_uses_20250919  once the prompt exceeds `trigger` (100,000 input tokens, or a number of tool uses), replaces all results
                          but the last ones (`keep`, 3) by a short text, and the inputs of the calls where `clear_tool_inputs` says
                          so; not those of `exclude_tools`, and not where less than `clear_at_least` tokens would come free

A client sends its whole history each time. What was cleared before is found by playing the history again from the start, one
request after another, as if this server remembered: so the prompt changes near its beginning only when the trigger fires
anew, and not at each request, which would make the prefix cache useless. Edits that nobody knows here, as compaction, are not
applied, and the answer claims only what was done.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from pod.bridge.codec import dumps
from pod.bridge.errors import InvalidRequestError
from pod.bridge.requests_content import Image
from pod.bridge.requests_messages import AssistantTurn, Call, Conversation, Result, UserTurn
from pod.bridge.size import BYTES_PER_TOKEN, IMAGE_TOKENS, MESSAGE_TOKENS, estimate

THINKING, TOOL_USES = "clear_thinking_20251015", "clear_tool_uses_20250919"
CLEARED = "[The result of this tool call was cleared to save room.]"
TRIGGER_TOKENS, KEEP_USES, KEEP_TURNS = 100_000, 3, 1
# The estimate errs upward; most texts have about four bytes a token.
LIKELY = BYTES_PER_TOKEN / 4
STEPS = 16
# What a chat template and the JSON of a call put around each: 8 tokens, as the estimate has it.
AROUND = MESSAGE_TOKENS * BYTES_PER_TOKEN


class ToolUses(NamedTuple):
    """The edit of that name. `above` is in input tokens or, with `by_uses`, in tool uses; `inputs` True clears all of them."""

    above: int = TRIGGER_TOKENS
    by_uses: bool = False
    keep: int = KEEP_USES
    at_least: int = 0
    excluded: frozenset[str] = frozenset()
    inputs: bool | frozenset[str] = False


class Edits(NamedTuple):
    """What to do: `turns` whose thinking is kept (None: all), and the edit of tool uses, if there is one."""

    turns: int | None = None
    uses: ToolUses | None = None
    notes: tuple[str, ...] = ()


def edits_of(body: dict[str, Any]) -> Edits:
    """The edits of a request. Raises InvalidRequestError for what cannot be meant."""
    wanted = body.get("context_management")
    if wanted is None:
        return Edits()
    if not isinstance(wanted, dict):
        raise InvalidRequestError("context_management", "must be an object")
    edits = wanted.get("edits")
    if edits is None:
        return Edits()
    if not isinstance(edits, list):
        raise InvalidRequestError("context_management.edits", "must be a list")
    found = Edits()
    for i, edit in enumerate(edits):
        route = f"context_management.edits.{i}"
        if not isinstance(edit, dict):
            raise InvalidRequestError(route, "must be an object")
        kind = edit.get("type")
        if kind == THINKING:
            found = found._replace(turns=_turns(edit.get("keep"), route))
        elif kind == TOOL_USES:
            found = found._replace(uses=_tool_uses(edit, route))
        else:
            found = found._replace(notes=(*found.notes, f"{route}: {str(kind)[:100]} is not known here and was not applied"))
    return found


def _turns(keep: Any, route: str) -> int | None:
    if keep is None:
        return KEEP_TURNS
    if keep == "all" or (isinstance(keep, dict) and keep.get("type") == "all"):
        return None
    return _value(keep, ("thinking_turns",), f"{route}.keep", 1)[1]


def _tool_uses(edit: dict[str, Any], route: str) -> ToolUses:
    made = ToolUses(excluded=_names(edit.get("exclude_tools"), f"{route}.exclude_tools"))
    if edit.get("trigger") is not None:
        kind, above = _value(edit["trigger"], ("input_tokens", "tool_uses"), f"{route}.trigger", 1)
        made = made._replace(above=above, by_uses=kind == "tool_uses")
    if edit.get("keep") is not None:
        made = made._replace(keep=_value(edit["keep"], ("tool_uses",), f"{route}.keep", 0)[1])
    if edit.get("clear_at_least") is not None:
        made = made._replace(at_least=_value(edit["clear_at_least"], ("input_tokens",), f"{route}.clear_at_least", 0)[1])
    inputs = edit.get("clear_tool_inputs")
    return made._replace(inputs=inputs if isinstance(inputs, bool) else _names(inputs, f"{route}.clear_tool_inputs"))


def _value(raw: Any, kinds: tuple[str, ...], route: str, least: int) -> tuple[str, int]:
    kind, value = (raw.get("type"), raw.get("value")) if isinstance(raw, dict) else (None, None)
    if kind not in kinds or not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidRequestError(route, f"must have the type {' or '.join(kinds)} and a value from {least} on")
    return str(kind), value


def _names(raw: Any, route: str) -> frozenset[str]:
    if raw is None:
        return frozenset()
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise InvalidRequestError(route, "must be a list of tool names")
    return frozenset(raw)


def wants_count(body: Any) -> bool:
    """Whether an edit hangs on the number of input tokens, which may be above its trigger: the tokenizer has to be asked."""
    if not isinstance(body, dict) or not body.get("context_management"):
        return False
    uses = edits_of(body).uses
    return uses is not None and not uses.by_uses and estimate(body) > uses.above


def edited(conversation: Conversation, edits: Edits, body: dict[str, Any], estimated: int, counted: int | None) -> list[dict[str, Any]]:
    """Edits a conversation, and gives the edits that changed anything. `estimated` are the input tokens as `size` estimates them,
    `counted` those of the tokenizer, or None."""
    if edits.turns is None and edits.uses is None:
        return []
    before = estimate({key: body.get(key) for key in ("system", "tools")})
    return _Editor(conversation, edits, before, estimated, counted).applied()


@dataclasses.dataclass
class _Use:
    """A tool use that is still whole."""

    caller: AssistantTurn
    call: int
    answer: UserTurn
    result: int

    def name(self) -> str:
        return self.caller.calls[self.call].name


class _Editor:
    """Edits one conversation; `before` are the tokens in front of it."""

    def __init__(self, conversation: Conversation, edits: Edits, before: int, estimated: int, counted: int | None) -> None:
        self._conversation, self._edits = conversation, edits
        # In coarse steps, or the history would play a little differently each time that the conversation has grown.
        scale = LIKELY if counted is None else max(1, round(counted / max(1, estimated) * STEPS)) / STEPS
        self._scale, self._before = scale, before * scale

    def applied(self) -> list[dict[str, Any]]:
        """Edits, and says which edits changed anything."""
        done = []
        turns, saved = self._clear_thinking()
        if turns:
            done.append({"type": THINKING, "cleared_thinking_turns": turns, "cleared_input_tokens": saved})
        uses, saved = self._clear_uses()
        if uses:
            done.append({"type": TOOL_USES, "cleared_tool_uses": uses, "cleared_input_tokens": saved})
        return done

    def _size(self, text: str) -> float:
        return (len(text.encode("utf-8", "replace")) + AROUND) / BYTES_PER_TOKEN * self._scale

    # --- thinking

    def _clear_thinking(self) -> tuple[int, int]:
        keep, left, cleared, saved = self._edits.turns, self._edits.turns or 0, 0, 0
        if keep is None:
            return 0, 0
        for group in reversed(self._said()):
            thoughts = [text for turn in group for text in turn.thoughts]
            if not thoughts:
                continue
            if left > 0:
                left -= 1
                continue
            cleared += 1
            saved += round(sum(map(self._size, thoughts)))
            for turn in group:
                turn.thoughts = []
        return cleared, saved

    def _said(self) -> list[list[AssistantTurn]]:
        """The assistant's turns as a user sees them: with all calls of tools between."""
        groups: list[list[AssistantTurn]] = [[]]
        for turn in self._conversation.turns:
            if isinstance(turn, AssistantTurn):
                groups[-1].append(turn)
            elif not turn.results:
                groups.append([])
        return groups

    # --- tool uses

    def _clear_uses(self) -> tuple[int, int]:
        rule = self._edits.uses
        if rule is None:
            return 0, 0
        size, saved = self._before, 0.0
        whole: list[_Use] = []
        cleared = 0
        before: AssistantTurn | None = None
        for turn in self._conversation.turns:
            size += self._turn_size(turn)
            if isinstance(turn, AssistantTurn):
                before = turn
                continue
            if before is not None:
                uses = [_Use(before, i, turn, i) for i in range(min(len(before.calls), len(turn.results)))]
                whole += [use for use in uses if use.name() not in rule.excluded]
            before = None
            if (len(whole) if rule.by_uses else size) <= rule.above:
                continue
            old = whole[: max(0, len(whole) - rule.keep)]
            gain = sum(self._gain(use, rule) for use in old)
            if old and gain >= rule.at_least:
                for use in old:
                    self._clear(use, rule)
                whole = whole[len(old) :]
                cleared, saved, size = cleared + len(old), saved + gain, size - gain
        return cleared, round(saved)

    def _turn_size(self, turn: AssistantTurn | UserTurn) -> float:
        if isinstance(turn, AssistantTurn):
            return sum(map(self._size, (*turn.thoughts, *turn.texts))) + sum(map(self._input_size, turn.calls))
        parts = [*turn.parts, *(image for result in turn.results for image in result.images)]
        return sum(self._size(result.text) for result in turn.results) + sum(
            IMAGE_TOKENS if isinstance(part, Image) else self._size(part) for part in parts
        )

    def _input_size(self, call: Call) -> float:
        return self._size(dumps(call.input).decode())

    def _gain(self, use: _Use, rule: ToolUses) -> float:
        result = use.answer.results[use.result]
        gain = self._size(result.text) + len(result.images) * IMAGE_TOKENS - self._size(CLEARED)
        if rule.inputs is True or (rule.inputs and use.name() in rule.inputs):
            gain += self._input_size(use.caller.calls[use.call]) - self._size("{}")
        return max(0.0, gain)

    def _clear(self, use: _Use, rule: ToolUses) -> None:
        result = use.answer.results[use.result]
        use.answer.results[use.result] = Result(result.id, CLEARED, [], result.is_error)
        if rule.inputs is True or (rule.inputs and use.name() in rule.inputs):
            use.caller.calls[use.call] = use.caller.calls[use.call]._replace(input={})
