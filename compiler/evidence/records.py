"""Finding measurements: all records of the specs, by topic, model, hardware, engine, verdict and date; and who cites one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from compiler.diagnostics import Route, dotted
from compiler.load import SpecStore, logical
from compiler.schema import EvidenceSpec, Measurement


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One measurement with the topic that holds it."""

    topic: str
    record: Measurement

    @property
    def id(self) -> str:
        """What a spec cites: topic/id."""
        return f"{self.topic}/{self.record.id}"

    @property
    def is_superseded(self) -> bool:
        """True where a later record replaces it: it stays readable, and no choice may rest on it."""
        return self.record.verdict == "superseded"


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for. Names match where they occur in a record's, in any case; `since` is YYYY, YYYY-MM or YYYY-MM-DD."""

    model: str | None = None
    hardware: str | None = None
    engine: str | None = None
    topic: str | None = None
    verdict: str | None = None
    metric: str | None = None
    session: str | None = None
    since: str | None = None

    def fits(self, entry: Entry) -> bool:
        """True for a record that has all that is asked for. A date that is known to the month counts by its month."""
        r = entry.record
        named = (
            (self.model, f"{r.model} {r.checkpoint}"),
            (self.hardware, r.hardware),
            (self.engine, r.engine),
            (self.topic, entry.topic),
            (self.metric, r.metric),
            (self.session, r.session),
        )
        if any(asked is not None and asked.lower() not in (said or "").lower() for asked, said in named):
            return False
        if self.verdict is not None and self.verdict != (r.verdict or "none"):
            return False
        return self.since is None or r.date >= self.since[: len(r.date)]


def entries(store: SpecStore) -> list[Entry]:
    """Every record of every topic that can be read, in the files' order; `podwright lint` says what is wrong with the others."""
    found: list[Entry] = []
    for topic in store.names("evidence"):
        spec, _ = store.spec("evidence", topic)
        if isinstance(spec, EvidenceSpec):
            found += [Entry(topic, record) for record in spec.records]
    return found


def entry_of(known: Sequence[Entry], reference: str) -> Entry | None:
    """The record by topic/id, or by its id alone, which no two records share."""
    return next((e for e in known if reference in (e.id, e.record.id)), None)


def nearest(known: Sequence[Entry], reference: str) -> list[str]:
    """Ids that look like one that does not exist."""
    names = {name: e.id for e in known for name in (e.record.id, e.id)}
    return list(dict.fromkeys(names[n] for n in difflib.get_close_matches(reference, list(names), n=3, cutoff=0.5)))


def citing(store: SpecStore, reference: str) -> list[str]:
    """Where the specs cite a record: `specs/models/x.yaml#engine.y.evidence[0]`, in the order of kinds and names."""
    found = []
    for kind in ("profile", "model", "hardware", "engine"):
        for name in store.names(kind):
            path = logical(kind, name)
            found += [
                f"{path}#{dotted(route)}"
                for route, text in _texts(store.document(path)[0].data, ())
                if text == reference and "evidence" in route
            ]
    return found


def _texts(value: Any, route: Route) -> Iterator[tuple[Route, str]]:
    if isinstance(value, str):
        yield route, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, inner in items:
        yield from _texts(inner, (*route, key))
