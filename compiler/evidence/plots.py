"""Which measurements are drawn together, and under which names. Pure: records and prices to SVG texts by file name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from compiler.evidence.records import Entry, entries
from compiler.evidence.svg import Bar, Line, bar_chart, line_chart
from compiler.load import SpecStore
from compiler.schema import HardwareSpec, Measurement

Prices = Mapping[str, float]
"""USD an hour of a hardware spec, newest first read, by the spec's name."""


def plots(store: SpecStore) -> dict[str, str]:
    """Every plot that the records allow, by name without an ending."""
    return drawn(entries(store), prices(store))


def drawn(known: Sequence[Entry], priced: Prices) -> dict[str, str]:
    """As `plots`, from records and prices. A plot without data is left out."""
    makers: dict[str, Callable[[], str | None]] = {
        "decode-by-context": lambda: _lines(
            known,
            "decode_tok_s_solo",
            "context",
            "Decode speed of one session against its context",
            "tokens of context (logarithmic)",
            "tokens a second",
        ),
        "aggregate-by-sessions": lambda: _lines(
            known,
            "aggregate_tok_s",
            "sessions",
            "Speed of all sessions together against their number",
            "sessions at once (logarithmic)",
            "tokens a second, all sessions",
        ),
        "kv-tokens-by-dtype": lambda: _cache(known),
        "price-per-million": lambda: _price(known, priced),
    }
    return {name: text for name, make in makers.items() if (text := make()) is not None}


def prices(store: SpecStore) -> dict[str, float]:
    """The newest price of each hardware spec that states one."""
    found = {}
    for name in store.names("hardware"):
        spec, _ = store.spec("hardware", name)
        if isinstance(spec, HardwareSpec) and spec.prices:
            found[name] = spec.prices[-1].usd_per_hour  # The latest stands last.
    return found


def _lines(known: Iterable[Entry], metric: str, key: str, title: str, across: str, up: str) -> str | None:
    """One line for each set-up of one session that was measured at two points and more."""
    series: defaultdict[tuple[str, ...], dict[float, float]] = defaultdict(dict)
    replaced: dict[tuple[str, ...], bool] = {}
    for entry in known:
        r, at = entry.record, entry.record.settings.get(key)
        if r.metric == metric and _number(at) and _number(r.value):
            group = (_setup(r), _changes(r, key), r.session or entry.id)
            series[group].setdefault(float(at), float(r.value))  # type: ignore[arg-type]
            replaced[group] = replaced.get(group, True) and entry.is_superseded
    kept = {group: points for group, points in series.items() if len(points) > 1}
    if not kept:
        return None
    lines = [
        Line(
            ", ".join(part for part in (*group[:2], "superseded" if replaced[group] else "") if part),
            tuple(sorted(points.items())),
            replaced[group],
        )
        for group, points in sorted(kept.items())
    ]
    return line_chart(title, across, up, lines)


def _cache(known: Iterable[Entry]) -> str | None:
    """The largest cache that each set-up reported with each type, without speculation; superseded records are out."""
    best: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for entry in known:
        r, dtype = entry.record, entry.record.settings.get("kv_cache_dtype")
        if (
            r.metric == "kv_tokens"
            and not entry.is_superseded
            and isinstance(dtype, str)
            and _number(r.value)
            and r.settings.get("speculation") in (None, "none")
        ):
            best[_setup(r)][dtype] = max(float(r.value), best[_setup(r)].get(dtype, 0.0))  # type: ignore[arg-type]
    bars = [
        Bar(f"{setup}, {dtype}", value, f"{value / 1e6:.3f} M tokens", number)
        for number, (setup, types) in enumerate(sorted(best.items()))
        for dtype, value in sorted(types.items(), key=lambda item: -item[1])
    ]
    return bar_chart("KV cache that the engine reported, by cache type", bars) if bars else None


def _price(known: Iterable[Entry], priced: Prices) -> str | None:
    """USD for a million tokens, for one session and for the best sum of many; superseded and rejected records are out."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for entry in known:
        r = entry.record
        cost = price_of(r, priced)
        kind = {"decode_tok_s_solo": "one session", "aggregate_tok_s": "all sessions"}.get(r.metric)
        if kind is None or cost is None or not _number(r.value) or r.verdict in ("superseded", "rejected"):
            continue
        label = f"{r.settings['sessions']} sessions" if kind == "all sessions" and _number(r.settings.get("sessions")) else kind
        usd = per_million(cost, float(r.value))  # type: ignore[arg-type]
        key = (_setup(r), kind)
        if key not in best or usd < best[key][0]:
            best[key] = (usd, float(label.split()[0]) if label[0].isdigit() else 0.0)
    bars = [
        Bar(f"{setup}, {kind if not sessions else f'{sessions:.0f} sessions'}", usd, f"{usd:.2f} USD", 0 if kind == "one session" else 2)
        for (setup, kind), (usd, sessions) in sorted(best.items(), key=lambda item: item[1][0])
    ]
    return bar_chart("USD for a million generated tokens, by card, at the price of its record or hardware spec", bars) if bars else None


def per_million(usd_per_hour: float, tokens_per_second: float) -> float:
    """USD for a million tokens at a speed that is kept up."""
    return usd_per_hour / (tokens_per_second * 3600) * 1e6


def price_of(r: Measurement, priced: Prices) -> float | None:
    """USD an hour of a record's set-up: the record's own, else that of the hardware spec of as many GPUs."""
    said = r.columns.get("price_usd_h")
    if _number(said):
        return float(said)  # type: ignore[arg-type]
    if r.hardware is None or r.gpus is None:
        return None
    return priced.get(r.hardware if r.gpus == 1 else f"{r.gpus}x{r.hardware}")


def _setup(r: Measurement) -> str:
    return f"{r.model or 'no model'} on {r.gpus or 1} x {r.hardware or 'no card'}"


def _changes(r: Measurement, key: str) -> str:
    """What tells two lines of one set-up apart: cache type, speculation, and the settings that were tried out."""
    told = ("kv_cache_dtype", "speculation", "bootstrap", "mamba_cache_mode")
    return ", ".join(f"{name} {r.settings[name]}" for name in told if r.settings.get(name) not in (None, "none") and name != key)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
