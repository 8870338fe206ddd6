"""Two measurements side by side: the difference, how sure it is, and what else differed. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from compiler.evidence.records import Entry
from compiler.schema import Measurement

Verdict: TypeAlias = Literal["higher", "lower", "no difference", "one run each", "across sessions", "not comparable"]
# Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond the last, the normal one.
_T95 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
_NORMAL95 = 1.960


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What `a` is against `b`. `difference` and `interval` are a - b in the metric's unit, `percent` is of b.

    `differing` are the conditions that are not the same in both, and `cautions` what a reader must know before using it.
    """

    a: Entry
    b: Entry
    verdict: Verdict
    difference: float | None
    percent: float | None
    interval: tuple[float, float] | None
    differing: dict[str, tuple[Any, Any]]
    cautions: tuple[str, ...]

    @property
    def has_verdict(self) -> bool:
        """True where the two records may be set against each other."""
        return self.verdict not in ("across sessions", "not comparable")


def compared(a: Entry, b: Entry, *, across_sessions: bool = False) -> Comparison:
    """The comparison. Across sessions the hosts, drivers and loads differ too, so there is no verdict unless it is asked for."""
    x, y = a.record, b.record
    differing = _differing(x, y)
    first, second = _point(x), _point(y)
    if (x.metric, x.unit) != (y.metric, y.unit):
        return Comparison(a, b, "not comparable", None, None, None, differing, (f"one is {_named(x)}, the other {_named(y)}",))
    if first is None or second is None:
        return Comparison(a, b, "not comparable", None, None, None, differing, ("the result of at least one is no number",))
    same = x.session is not None and x.session == y.session
    cautions = _cautions(a, b, same, differing)
    difference = first - second
    percent = 100 * difference / second if second else None
    if not same and not across_sessions:
        return Comparison(a, b, "across sessions", difference, percent, None, differing, cautions)
    interval = _interval(x, y)
    return Comparison(a, b, _verdict(difference, interval), difference, percent, interval, differing, cautions)


def _verdict(difference: float, interval: tuple[float, float] | None) -> Verdict:
    if interval is None:
        return "no difference" if difference == 0 else "one run each"
    return "higher" if interval[0] > 0 else "lower" if interval[1] < 0 else "no difference"


def _interval(x: Measurement, y: Measurement) -> tuple[float, float] | None:
    """95 % for the difference of means where both were repeated (Welch); else what the two ranges allow, where one gives a range."""
    if len(x.repeats) > 1 and len(y.repeats) > 1:
        return _welch(x.repeats, y.repeats)
    (low, high), (other_low, other_high) = _range(x), _range(y)
    return None if low == high and other_low == other_high else (low - other_high, high - other_low)


def _welch(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    u, v = statistics.variance(x) / len(x), statistics.variance(y) / len(y)
    middle = statistics.fmean(x) - statistics.fmean(y)
    if u + v == 0:
        return middle, middle
    freedom = math.floor((u + v) ** 2 / (u * u / (len(x) - 1) + v * v / (len(y) - 1)))
    half = (_T95[max(1, freedom) - 1] if freedom <= len(_T95) else _NORMAL95) * math.sqrt(u + v)
    return middle - half, middle + half


def _range(r: Measurement) -> tuple[float, float]:
    said = _said_range(r)
    point = _point(r) or 0.0
    return said or (min(r.repeats, default=point), max(r.repeats, default=point))


def _point(r: Measurement) -> float | None:
    """The result as one number: the mean of the repeats, the value, or the middle of its range."""
    if r.repeats:
        return statistics.fmean(r.repeats)
    said = _said_range(r)
    return _number(r.value) if said is None or _number(r.value) is not None else (said[0] + said[1]) / 2


def _said_range(r: Measurement) -> tuple[float, float] | None:
    low, high = _number(r.columns.get("value_low")), _number(r.columns.get("value_high"))
    return (low, high) if low is not None and high is not None else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _named(r: Measurement) -> str:
    return f"{r.metric} in {r.unit}" if r.unit else r.metric


def _differing(x: Measurement, y: Measurement) -> dict[str, tuple[Any, Any]]:
    """Conditions that are not the same: the set-up's names, and settings that one or both state."""
    named = {
        key: (getattr(x, key), getattr(y, key))
        for key in ("model", "checkpoint", "hardware", "gpus", "engine", "image", "workload", "date")
    }
    named |= {
        f"settings.{key}": (x.settings.get(key), y.settings.get(key))
        for key in (*x.settings, *(k for k in y.settings if k not in x.settings))
    }
    return {key: pair for key, pair in named.items() if pair[0] != pair[1]}


def _cautions(a: Entry, b: Entry, same: bool, differing: dict[str, tuple[Any, Any]]) -> tuple[str, ...]:
    found = []
    if not same:
        found.append(
            f"they are of two sessions ({a.record.session or 'none named'} and {b.record.session or 'none named'}): "
            "host, driver and load differ as well"
        )
    changed = [key.removeprefix("settings.") for key in differing if key.startswith("settings.")]
    if len(changed) > 1:
        found.append(f"{len(changed)} settings differ at once ({', '.join(changed)}): the difference belongs to all of them together")
    for key in ("model", "hardware", "gpus", "engine", "workload"):
        if key in differing:
            found.append(f"the {'number of GPUs' if key == 'gpus' else key} is not the same")
    found += [f"{e.id} is superseded{f' by {e.record.superseded_by}' if e.record.superseded_by else ''}" for e in (a, b) if e.is_superseded]
    found += [f"{e.record.id}: {e.record.caveat}" for e in (a, b) if e.record.caveat]
    return tuple(found)
