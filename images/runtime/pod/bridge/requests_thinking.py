"""Thinking: what a client wants -> what the engine takes.

`thinking.budget_tokens` becomes `thinking_token_budget`; `disabled` switches the chat template's thinking off; `adaptive`
leaves the model as long as it likes; `output_config.effort` stands for the documents' budgets. An explicit budget wins over
an effort, and `disabled` over both. Claude Code says nothing where its user switched thinking off (seen at 2.1.332, with
MAX_THINKING_TOKENS=0), which the Anthropic API takes for off and a model's template for on: from it, nothing is `disabled`.

Clamping: a budget below max_tokens is taken as it is, however small (64 tokens are measured to work, and to answer worse).
One that is not below leaves a quarter of max_tokens, at most 1,024 tokens, for the answer. Effort levels that nobody
knows count as no effort; levels above the highest one of a model with levels of its own become that one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pod.bridge.errors import InvalidRequestError
from pod.bridge.settings import Model, Settings

ANSWER_TOKENS = 1024
# "updates" would show only short notes of progress, which no open model writes.
_UNREAD = ("omitted", "updates")
ORDER = ("low", "medium", "high", "xhigh", "max")


class Thinking(NamedTuple):
    """How to think: `enabled` None leaves it to the template, `budget` in tokens, `level` for models that have levels;
    `is_omitted`: the client does not want to read it."""

    enabled: bool | None
    budget: int | None
    level: str | None
    is_explicit: bool
    notes: tuple[str, ...]
    is_omitted: bool = False


def thinking_of(body: dict[str, Any], max_tokens: int | None, model: Model, settings: Settings) -> Thinking:
    """The thinking that a request asks for. Raises InvalidRequestError for what cannot be meant."""
    wanted = _mapping(body, "thinking")
    kind = wanted.get("type", "disabled" if _is_claude_code(body) and not wanted else None)
    effort, notes = _effort(body, settings)
    if kind == "disabled":
        return Thinking(False, None, model.effort_levels[0] if model.effort_levels else None, True, tuple(notes))
    budget = _budget(wanted)
    is_explicit = budget is not None
    if budget is None and effort is not None:
        budget = settings.effort_budgets.get(effort)
    if budget is not None and max_tokens is not None and budget >= max_tokens:
        lowered = below(max_tokens)
        notes.append(f"thinking budget {budget} lowered to {lowered}: max_tokens is {max_tokens}")
        budget = lowered
    if budget is not None and settings.thinking_budget is False:
        notes.append(f"thinking budget {budget} not sent: this engine refuses budgets")
        budget = None
    enabled = True if kind is not None and model.reasoning is not False else None
    is_omitted = wanted.get("display") in _UNREAD
    return Thinking(enabled, budget, _level(effort, model), is_explicit and kind == "enabled", tuple(notes), is_omitted)


def _is_claude_code(body: dict[str, Any]) -> bool:
    """Whether the request names a session as Claude Code does: in JSON, or `user_..._session_...` before that."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return isinstance(user, str) and ('"session_id"' in user or (user.startswith("user_") and "_session_" in user))


def below(max_tokens: int) -> int:
    """The budget that leaves room for an answer; in tokens."""
    return max(0, max_tokens - max(1, min(ANSWER_TOKENS, max_tokens // 4)))


def _budget(wanted: dict[str, Any]) -> int | None:
    budget = wanted.get("budget_tokens")
    if budget is None:
        return None
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        raise InvalidRequestError("thinking.budget_tokens", "must be a whole number above 0")
    return budget


def _effort(body: dict[str, Any], settings: Settings) -> tuple[str | None, list[str]]:
    effort = _mapping(body, "output_config").get("effort")
    if effort is None:
        return None, []
    if isinstance(effort, str) and (effort in settings.effort_budgets or effort in ORDER):
        return effort, []
    return None, ["output_config.effort is not known here and was ignored"]


def _level(effort: str | None, model: Model) -> str | None:
    if effort not in ORDER or not model.effort_levels:
        return None
    return effort if effort in model.effort_levels else model.effort_levels[-1]


def _mapping(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequestError(key, "must be an object")
    return value
