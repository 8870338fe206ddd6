"""`podwright evidence`: the measurements behind choices, listed, shown whole, compared and drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from compiler.artifact import write_text
from compiler.cli_options import Json, OnlySpecs, Specs
from compiler.command_support import Exit, spec_store
from compiler.console import print_json, table
from compiler.diagnostics import printable
from compiler.evidence.records import Entry, Wanted, citing, entries, entry_of, nearest

if TYPE_CHECKING:  # Only a comparison needs statistics.
    from compiler.evidence.comparing import Comparison

VERDICTS = ("kept", "rejected", "neutral", "superseded", "none")
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")

evidence_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
Reference = Annotated[str, typer.Argument(help="A measurement, as topic/id or id.")]


@evidence_app.callback()
def listed(
    context: typer.Context,
    model: Annotated[str | None, typer.Option("--model", help="Part of a model's or a checkpoint's name.", show_default=False)] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="Part of a card's name, for instance a40.", show_default=False)] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help='Part of an engine\'s name and release, for instance "vllm 0.27.1".', show_default=False)
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Part of a topic's name.", show_default=False)] = None,
    verdict: Annotated[
        str | None, typer.Option("--verdict", help="kept, rejected, neutral, superseded or none.", show_default=False)
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Part of a metric's name, for instance kv_tokens.", show_default=False)
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="Part of a session's name.", show_default=False)] = None,
    since: Annotated[str | None, typer.Option("--since", help="A date: YYYY, YYYY-MM or YYYY-MM-DD.", show_default=False)] = None,
    specs: Specs = [],
    only_specs: OnlySpecs = False,
    as_json: Json = False,
) -> None:
    """List the measurements that choices and rules rest on; show, compare and plot them.

    Filters add up, and match anywhere in a name. A superseded record stays readable, and no choice may rest on it (rule EVD002).

    Examples:

      podwright evidence --model nemotron --hardware rtx-pro-6000 --verdict kept

      podwright evidence --metric kv_tokens --since 2026-08-23 --json

      podwright evidence show nemotron-ada-align-kv

      podwright evidence compare nemotron-ada-align-solo nemotron-ada-all-solo
    """
    asked = (model, hardware, engine, topic, verdict, metric, session, since)
    if context.invoked_subcommand is not None:
        if any(value is not None for value in asked) or specs or only_specs or as_json:
            raise typer.BadParameter("write them behind the subcommand; filters belong to the list alone", param_hint="OPTIONS")
        return
    if verdict is not None and verdict not in VERDICTS:
        raise typer.BadParameter(f"one of {', '.join(VERDICTS)}", param_hint="--verdict")
    if since is not None and not _DATE.fullmatch(since):
        raise typer.BadParameter("YYYY, YYYY-MM or YYYY-MM-DD", param_hint="--since")
    wanted = Wanted(model, hardware, engine, topic, verdict, metric, session, since)
    found = [entry for entry in entries(spec_store(specs, only_specs)) if wanted.fits(entry)]
    if as_json:
        print_json([_json(entry) for entry in found])
        return
    rows = [(e.id, e.record.date, _setup(e), e.record.metric, _value(e), _verdict(e)) for e in found]
    if rows:
        print(table(rows, ("ID", "DATE", "ON", "METRIC", "VALUE", "VERDICT")))
    print(f"{len(found)} measurement{'s' if len(found) != 1 else ''}", file=sys.stderr)


@evidence_app.command()
def show(reference: Reference, specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False) -> None:
    """Show one measurement whole, and the specs that cite it.

    Examples:

      podwright evidence show nemotron-ada/nemotron-ada-align-kv

      podwright evidence show fn-kv-bytes-17g --json
    """
    store = spec_store(specs, only_specs)
    entry = _entry(entries(store), reference)
    cited = citing(store, entry.id)
    if as_json:
        print_json(_json(entry) | {"cited_by": cited})
        return
    record = entry.record.model_dump(exclude_defaults=True)
    print(printable(entry.id) + ("   superseded: no choice may rest on it" if entry.is_superseded else ""))
    for key, value in record.items():
        if isinstance(value, dict):
            print(f"  {key}")
            print("\n".join(printable(f"    {name:<{max(map(len, value)) + 2}}{_plain(inner)}") for name, inner in value.items()))
        elif key != "id":
            print(printable(f"  {key:<14}{_plain(value)}"))
    print("  cited by      " + ("\n                ".join(cited) if cited else "no spec"))


@evidence_app.command()
def compare(
    a: Reference,
    b: Annotated[
        str | None, typer.Argument(help="What it is compared with. Absent: the record's own baseline.", show_default=False)
    ] = None,
    across_sessions: Annotated[
        bool, typer.Option("--across-sessions", help="Give a verdict although host, driver and load may differ.")
    ] = False,
    specs: Specs = [],
    only_specs: OnlySpecs = False,
    as_json: Json = False,
) -> None:
    """Compare two measurements: the difference, how sure it is, and what else was different.

    Two records of one session are an A/B. Where both were repeated, the interval is the 95 % one for the difference of means, and
    "no difference" is an answer. Records of two sessions get no verdict, and exit code 1, unless --across-sessions asks for one.

    Examples:

      podwright evidence compare nemotron-ada-align-solo nemotron-ada-all-solo

      podwright evidence compare a40-ornith-dspark-agg-1

      podwright evidence compare choice-ada-solo-85k choice-a40x2-solo-85k --json
    """
    from compiler.evidence.comparing import compared

    known = entries(spec_store(specs, only_specs))
    first = _entry(known, a)
    if b is None and first.record.baseline is None:
        raise typer.BadParameter(f"{first.id} names no baseline: give the second record", param_hint="B")
    result = compared(first, _entry(known, b or first.record.baseline or ""), across_sessions=across_sessions)
    if as_json:
        print_json(_comparison_json(result))
    else:
        _print_comparison(result)
    raise typer.Exit(Exit.OK if result.has_verdict else Exit.REFUSED)


@evidence_app.command()
def plot(
    names: Annotated[list[str] | None, typer.Argument(help="Plots to write; none writes all.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Part of a model's or a checkpoint's name.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Part of a card's name, for instance a40.")] = None,
    engine: Annotated[str | None, typer.Option(help='Part of an engine\'s name and release, for instance "vllm 0.27.1".')] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the SVG files.")] = Path("plots"),
    specs: Specs = [],
    only_specs: OnlySpecs = False,
    as_json: Json = False,
) -> None:
    """Draw the measurements as SVG files: decode speed by context, aggregate by sessions, KV tokens by type, price by card.

    The same records give the same bytes. `podwright docs` keeps the copies in docs/plots.

    Examples:

      podwright evidence plot

      podwright evidence plot kv-tokens-by-dtype --out /tmp/plots

      podwright evidence plot --model ornith --hardware a40
    """
    from compiler.evidence.plots import drawn, prices

    store, wanted = spec_store(specs, only_specs), Wanted(model=model, hardware=hardware, engine=engine)
    made = drawn([entry for entry in entries(store) if wanted.fits(entry)], prices(store))
    for name in names or ():
        if name not in made:
            raise typer.BadParameter(f"no plot {name!r}; there are: {', '.join(made) or 'none, for want of records'}", param_hint="NAMES")
    written = [out / f"{name}.svg" for name in made if not names or name in names]
    for path in written:
        write_text(path, made[path.stem])
    if as_json:
        print_json([str(path) for path in written])
    else:
        print("\n".join(f"Made {path}" for path in written) or "No plot: there are no records to draw.")


def _entry(known: list[Entry], reference: str) -> Entry:
    found = entry_of(known, reference)
    return found if found is not None else _no_such(known, reference)


def _no_such(known: list[Entry], reference: str) -> NoReturn:
    near = nearest(known, reference)
    raise typer.BadParameter(
        f"no measurement {reference!r}. {'Did you mean ' + ', '.join(near) + '?' if near else '`podwright evidence` lists them.'}",
        param_hint="MEASUREMENT",
    )


def _print_comparison(c: Comparison) -> None:
    for label, entry in (("A", c.a), ("B", c.b)):
        print(printable(f"{label}  {entry.id}: {entry.record.metric} {_value(entry)}, {entry.record.date}, {_setup(entry)}"))
    unit = f" {c.a.record.unit}" if c.a.record.unit else ""
    if c.difference is not None:
        share = f" ({c.percent:+.1f} %)" if c.percent is not None else ""
        sure = (
            f", 95 % interval {c.interval[0]:+.4g} to {c.interval[1]:+.4g}"
            if c.interval and c.a.record.repeats and c.b.record.repeats
            else f", by their ranges {c.interval[0]:+.4g} to {c.interval[1]:+.4g}"
            if c.interval
            else ""
        )
        print(f"A - B  {c.difference:+.4g}{unit}{share}{sure}")
    meaning = {
        "higher": "A is higher than B.",
        "lower": "A is lower than B.",
        "no difference": "No difference.",
        "one run each": "One run each, so there is no interval that would tell the difference from noise.",
        "not comparable": "Not comparable.",
        "across sessions": "No verdict: they are of two sessions. --across-sessions gives one all the same.",
    }
    print(meaning[c.verdict])
    for key, (x, y) in c.differing.items():
        print(printable(f"  {key}: {_plain(x)} against {_plain(y)}"))
    for caution in c.cautions:
        print(printable(f"  note: {caution}"))


def _comparison_json(c: Comparison) -> dict[str, Any]:
    return {
        "a": c.a.id,
        "b": c.b.id,
        "metric": c.a.record.metric,
        "unit": c.a.record.unit,
        "verdict": c.verdict,
        "difference": c.difference,
        "percent": c.percent,
        "interval": list(c.interval) if c.interval else None,
        "differing": {key: list(pair) for key, pair in c.differing.items()},
        "cautions": list(c.cautions),
    }


def _json(entry: Entry) -> dict[str, Any]:
    return {"id": entry.id, "topic": entry.topic, "citable": not entry.is_superseded} | {
        k: v for k, v in entry.record.model_dump(mode="json").items() if k != "id"
    }


def _setup(entry: Entry) -> str:
    r = entry.record
    parts = (r.model, f"{r.gpus or 1} x {r.hardware}" if r.hardware else None)
    return printable(", ".join(part for part in parts if part) or "-")


def _value(entry: Entry) -> str:
    r = entry.record
    shown = f"{r.value:,}" if isinstance(r.value, int) and not isinstance(r.value, bool) else str(r.value)
    return printable(f"{shown} {r.unit}" if r.unit else shown)


def _verdict(entry: Entry) -> str:
    r = entry.record
    return printable(f"superseded by {r.superseded_by}" if r.superseded_by else r.verdict or "-")


def _plain(value: Any) -> str:
    if value is None:
        return "not stated"
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
