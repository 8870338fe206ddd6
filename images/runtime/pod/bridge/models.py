"""Model names: what a client asks for -> what the engine serves, and the lists at /v1/models in both protocols.

No name is ever refused: agents ask for names of their own, and a bridge with one model has one answer. A name is matched as
it stands, then without regard to case, percent-encoding, a `[1m]` suffix, a `claude-` or `anthropic/` prefix; then by an
unambiguous last path segment; what is left gets the first model.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from pod.bridge.errors import ApiError, InvalidRequestError
from pod.bridge.settings import Model

LONG_SUFFIX = "[1m]"
PAGE, MAX_PAGE = 20, 1000


class Match(NamedTuple):
    """The model that answers, the name that its engine knows it by, and whether the client's name was known."""

    model: Model
    upstream_name: str
    known: bool


class Names:
    """The names of some models. `created` is the time in seconds since 1970 that the lists give."""

    def __init__(self, models: tuple[Model, ...], created: int = 0) -> None:
        self.models = models
        self._created = created
        self._exact: dict[str, tuple[Model, str]] = {}
        self._loose: dict[str, tuple[Model, str]] = {}
        self._last: dict[str, tuple[Model, str] | None] = {}
        for model, name in self._all():
            found = (model, name if name in model.names else (model.names or (name,))[0])
            self._exact.setdefault(name, found)
            self._loose.setdefault(_loose(name), found)
            last = _loose(name).rpartition("/")[2]
            is_ambiguous = last in self._last and self._last[last] != found
            self._last[last] = None if is_ambiguous else found

    def _all(self) -> Iterator[tuple[Model, str]]:
        for model in self.models:
            for name in (*model.names, *model.aliases):
                yield model, name

    def resolve(self, requested: str) -> Match:
        """The model for a name; the first one for a name that nobody knows."""
        found = self._find(requested)
        if found:
            return Match(*found, known=True)
        first = self.models[0]
        return Match(first, first.names[0] if first.names else requested, known=False)

    def _find(self, requested: str) -> tuple[Model, str] | None:
        if found := self._exact.get(requested) or self._exact.get(unquote(requested)):
            return found
        loose = _loose(requested)
        return self._loose.get(loose) or self._last.get(loose.rpartition("/")[2])

    def page(self, *, anthropic: bool, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The list of all names: Anthropic's pages by `limit`, `after_id`, `before_id`, or OpenAI's whole list."""
        entries = [self._entry(model, name, anthropic) for model, name in self._listed()]
        if not anthropic:
            return {"object": "list", "data": entries}
        chosen, has_more = _paged(entries, query or {})
        first, last = (chosen[0]["id"], chosen[-1]["id"]) if chosen else (None, None)
        return {"data": chosen, "has_more": has_more, "first_id": first, "last_id": last}

    def entry(self, name: str, *, anthropic: bool) -> dict[str, Any]:
        """One model by any spelling of its name. Raises ApiError 404 for a name that nobody knows."""
        for model, known in self._listed():
            if known in (name, unquote(name)):
                return self._entry(model, known, anthropic)
        found = self._find(name)
        if found is None:
            raise ApiError(404, f"model: {name[:200]}")
        return self._entry(found[0], found[1], anthropic)

    def _listed(self) -> list[tuple[Model, str]]:
        return list({name: (model, name) for model, name in reversed(list(self._all()))}.values())[::-1]

    def _entry(self, model: Model, name: str, anthropic: bool) -> dict[str, Any]:
        window = model.context_window
        if anthropic:
            created = datetime.datetime.fromtimestamp(self._created, datetime.timezone.utc)  # noqa: UP017 (Python 3.10 runs this)
            stamp = created.strftime("%Y-%m-%dT%H:%M:%SZ")
            entry = {"type": "model", "id": name, "display_name": name, "created_at": stamp}
            return entry if window is None else {**entry, "context_window": window, "max_input_tokens": window}
        owned = {"id": name, "object": "model", "created": self._created, "owned_by": "podwright"}
        return owned if window is None else {**owned, "max_model_len": window}


def _loose(name: str) -> str:
    plain = unquote(name).strip().casefold().removesuffix(LONG_SUFFIX)
    for prefix in ("anthropic/", "claude-"):
        plain = plain.removeprefix(prefix)
    return plain


def _paged(entries: list[dict[str, Any]], query: Mapping[str, str]) -> tuple[list[dict[str, Any]], bool]:
    limit = query.get("limit", str(PAGE))
    if not limit.isdecimal() or not 1 <= int(limit) <= MAX_PAGE:
        raise InvalidRequestError("limit", f"must be a number from 1 to {MAX_PAGE}")
    ids = [entry["id"] for entry in entries]
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise InvalidRequestError("before_id", "cannot be combined with after_id")
    for route, wanted in (("after_id", after), ("before_id", before)):
        if wanted and wanted not in ids:
            raise InvalidRequestError(route, "names no model of this server")
    if before:
        rest = entries[: ids.index(before)]
        return rest[-int(limit):], len(rest) > int(limit)
    rest = entries[ids.index(after) + 1:] if after else entries
    return rest[: int(limit)], len(rest) > int(limit)
