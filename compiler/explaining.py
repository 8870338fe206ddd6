"""What `explain`, `list` and `engine` print: decisions with their origin and evidence, rule pages, flags."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import Any

from compiler.console import print_json, table
from compiler.diagnostics import Place, dotted, printable
from compiler.load import SpecStore, logical
from compiler.plan.core import Decision
from compiler.resolve import resolve_plan
from compiler.schema import Measurement
from compiler.schema.flags import Flag, FlagTable
from compiler.schema.specset import SpecSet

OK, UNKNOWN = 0, 2
KIND_OF = {"profiles": "profile", "models": "model", "hardware": "hardware", "engines": "engine", "evidence": "evidence"}


def print_decisions(specs: SpecSet, store: SpecStore, route: str | None, *, as_json: bool) -> int:
    """One decision with everything behind it, all below a route, or all of a profile; exit code 2 for an unknown route."""
    decisions = resolve_plan(specs).decisions
    chosen = [d for d in decisions if route is None or d.route == route or d.route.startswith(f"{route}.")]
    if not chosen:
        near = difflib.get_close_matches(route or "", [d.route for d in decisions], n=3, cutoff=0.4)
        print(f"no decided value {route!r} in {specs.name}. {'Did you mean ' + ', '.join(near) + '?' if near else 'Without a route, explain lists them all.'}", file=sys.stderr)
        return UNKNOWN
    if as_json:
        print_json([_decision_json(d, specs) for d in chosen])
    elif route is not None and chosen[0].route == route:
        print("\n\n".join(_decision_text(d, specs, store) for d in chosen))
    else:
        print(table([(d.route, _cut(d.value), d.origin, _short(d.where)) for d in chosen], ("VALUE OF", "IS", "FROM", "WHERE")))
    return OK


def print_rule(code: str, *, as_json: bool = False) -> int:
    """A rule's page, or what a code of reading specs means; exit code 2 for an unknown code."""
    from compiler.lint.registry import rule_by_code, rules
    from compiler.load.codes import CODES

    registered = rule_by_code(code)
    if registered is not None:
        severity: str | None = str(registered.rule.severity)
        page, name = registered.page.strip(), registered.rule.name
    elif code in CODES:
        (what, cure), name = CODES[code], "reading-commands" if code.startswith("CMD") else "reading-specs"
        severity = None if code.startswith(("CMD", "CKP")) else "error"  # Of those the message says how grave each is.
        page = f"{what}\n\n{cure}"
    else:
        near = difflib.get_close_matches(code, [*CODES, *(r.rule.code for r in rules())], n=3, cutoff=0.5)
        print(f"no rule {code}. {'Did you mean ' + ', '.join(near) + '?' if near else '`podwright list rules` lists them.'}", file=sys.stderr)
        return UNKNOWN
    if as_json:
        print_json({"code": code, "name": name, "severity": severity, "page": page})
    else:
        print(f"{code} {name}{f' ({severity})' if severity else ''}\n\n{page}")
    return OK


def print_listed(store: SpecStore, kind: str, *, as_json: bool) -> None:
    """What `podwright list KIND` prints. Raises typer.BadParameter for an unknown kind."""
    rows, header = listed(store, kind)
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        print(table(rows, header))


def listed(store: SpecStore, kind: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Rows and header of `podwright list KIND`. Raises typer.BadParameter for an unknown kind."""
    import typer

    if kind == "rules":
        from compiler.lint.registry import rules

        return [(r.rule.code, str(r.rule.severity), r.rule.name) for r in rules()], ("CODE", "SEVERITY", "NAME")
    if kind not in KIND_OF:
        raise typer.BadParameter(f"one of {', '.join((*KIND_OF, 'rules'))}", param_hint="KIND")
    rows: list[tuple[str, ...]] = []
    for name in store.names(KIND_OF[kind]):
        spec, problems = store.spec(KIND_OF[kind], name)
        rows.append((name, spec.summary if spec is not None else _summary(store, KIND_OF[kind], name, len(problems))))
    return rows, ("NAME", "SUMMARY")


def _summary(store: SpecStore, kind: str, name: str, problems: int) -> str:
    """The summary of a spec that is not complete by itself: a profile that extends another, or one with findings."""
    data = store.document(logical(kind, name))[0].data
    if isinstance(data, dict) and "extends" in data and isinstance(data.get("summary"), str):
        return str(data["summary"])
    return f"({problems} findings; see `podwright lint`)"


def print_flag(flags: FlagTable, name: str, *, as_json: bool) -> int:
    """One option of a release; exit code 2 when it has none by that name."""
    flag = flags.find(name)
    if flag is None:
        near = flags.nearest(name)
        print(f"vLLM {flags.release} has no option {name!r}. {f'Did you mean --{near.replace(chr(95), chr(45))}?' if near else ''}", file=sys.stderr)
        return UNKNOWN
    facts = _flag_facts(flag)
    if as_json:
        print_json(facts)
    else:
        print("\n".join(f"{key:>9}  {_cut(str(value), 200)}" for key, value in facts.items() if value not in (None, "", [], ())))
    return OK


def print_flag_diff(older: FlagTable, newer: FlagTable, *, as_json: bool) -> None:
    """Options that appeared, went, or changed type, choices or default."""
    gone, fresh = sorted(older.flags.keys() - newer.flags.keys()), sorted(newer.flags.keys() - older.flags.keys())
    changed = {}
    for dest in sorted(older.flags.keys() & newer.flags.keys()):
        a, b = _flag_facts(older.flags[dest]), _flag_facts(newer.flags[dest])
        differing = {key: (a[key], b[key]) for key in ("type", "choices", "default", "options") if a[key] != b[key]}
        if differing:
            changed[dest] = differing
    if as_json:
        print_json({"older": older.release, "newer": newer.release, "removed": gone, "added": fresh, "changed": {d: {k: {"older": v[0], "newer": v[1]} for k, v in c.items()} for d, c in changed.items()}})
        return
    print(f"vLLM {older.release} -> {newer.release}: {len(gone)} options removed, {len(fresh)} added, {len(changed)} changed")
    print("\n".join([*(f"- {dest}" for dest in gone), *(f"+ {dest}" for dest in fresh), *(_change_line(dest, c) for dest, c in changed.items())]))


def _change_line(dest: str, change: dict[str, Any]) -> str:
    return f"~ {dest}: " + "; ".join(f"{key} {_cut(str(before), 50)} -> {_cut(str(after), 50)}" for key, (before, after) in change.items())


def _flag_facts(flag: Flag) -> dict[str, Any]:
    return {
        "options": list(flag.options), "off": flag.negative, "kind": flag.kind, "type": flag.type, "choices": list(flag.choices), "default": flag.default,
        "keys": list(flag.keys), "help": flag.help,
    }  # fmt: skip


def _decision_json(d: Decision, specs: SpecSet) -> dict[str, Any]:
    return {"route": d.route, "value": d.value, "origin": d.origin, "where": d.where, "reason": d.reason, "evidence": [_measurement_json(e, specs.evidence.get(e)) for e in d.evidence]}


def _measurement_json(reference: str, m: Measurement | None) -> dict[str, Any]:
    return {"id": reference} | ({"date": m.date, "metric": m.metric, "value": m.value, "unit": m.unit, "verdict": m.verdict, "source": m.source} if m else {})


def _decision_text(d: Decision, specs: SpecSet, store: SpecStore) -> str:
    lines = [printable(f"{d.route} = {d.value}"), f"  from    {d.origin}{_position(d.where, store)}", printable(f"  reason  {d.reason}")]
    for reference in d.evidence:
        lines.append(f"  rests   {reference}{_measured(specs.evidence.get(reference) or store.measurement(reference, Place(''))[0])}")
    return "\n".join(lines)


def _measured(m: Measurement | None) -> str:
    if m is None:
        return ""
    of = ", ".join(part for part in (m.model, f"{m.gpus or 1} x {m.hardware}" if m.hardware else None, m.engine) if part)
    unit = f" {m.unit}" if m.unit else ""
    return f": {m.metric} {m.value}{unit} on {m.date} ({of})" + (f", {m.verdict}" if m.verdict else "")


def _position(where: str, store: SpecStore) -> str:
    if not where:
        return ""
    path, _, route = where.partition("#")
    document = store.document(path)[0]
    found = next((r for r in document.marks if dotted(r) == route), ())
    return f" {store.display(path)}:{document.position(found, on_key=True).line}"


def _short(where: str) -> str:
    return where.removeprefix("specs/")


def _cut(text: str, limit: int = 60) -> str:
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


__all__: Sequence[str] = ("listed", "print_decisions", "print_flag", "print_flag_diff", "print_listed", "print_rule")
