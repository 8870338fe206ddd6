"""What `explain --log` prints: the causes that a log tells, with the lines of the profile's specs that would change them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from compiler.console import print_json
from compiler.deploy.explainer import Cause, Explanation, explained
from compiler.diagnostics import Place, Route, printable
from compiler.load import SpecStore
from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecKind, SpecSet

KNOWN, UNKNOWN, UNREADABLE = 0, 1, 4
_KINDS: tuple[SpecKind, ...] = ("model", "hardware", "engine")


@dataclasses.dataclass(frozen=True, slots=True)
class SpecLine:
    """Where a spec says, or would say, what caused a failure. `line` is None where nothing is written yet."""

    route: str
    file: str
    line: int | None
    text: str


def print_log(path: str, specs: SpecSet | None, store: SpecStore | None, *, as_json: bool) -> int:
    """Explain a log file, or standard input for `-`; the exit code says whether a cause is known."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        print(
            f"error: {path} cannot be read: {error.strerror}\n  why: There is nothing to explain.\n  fix: Name a file, or - for standard input.",
            file=sys.stderr,
        )
        return UNREADABLE
    found = explained(content.decode("utf-8", "replace"))
    plan = resolve_plan(specs) if specs is not None else None
    lines = {
        cause.id: [spec_line(route, specs, plan, store) for route in cause.change] if specs and plan and store else []
        for cause in found.causes
    }
    if as_json:
        causes = [cause.to_json() | {"spec_lines": [dataclasses.asdict(line) for line in lines[cause.id]]} for cause in found.causes]
        print_json(found.to_json() | {"ok": found.known, "causes": causes})
    else:
        print(text_of(found, lines, specs.name if specs else None))
    return KNOWN if found.known else UNKNOWN


def text_of(found: Explanation, lines: dict[str, list[SpecLine]], profile: str | None) -> str:
    """An explanation for a person."""
    parts: list[str] = []
    if not found.known:
        parts.append("unknown: no fingerprint explains why this ended; nothing is guessed.")
        if found.last:
            parts.append(f"  the log's own last error: {found.last}")
        parts.append("  next: give the whole log, from the engine's start to its end; docs/explain.md says how a new cause is added.")
    for place, cause in enumerate(found.causes):
        head = "cause" if place == 0 and cause.kind == "error" else "also" if cause.kind == "error" else "note"
        parts.append("\n".join(_cause_lines(head, cause, lines.get(cause.id, []), profile)))
    return "\n".join(parts)


def spec_line(route: str, specs: SpecSet, plan: Plan, store: SpecStore) -> SpecLine:
    """Where the value of a route was written; where nobody wrote it, the file to write it into."""
    kind, wanted = _target(route)
    place = _written(kind, wanted, specs, store) or _decided(wanted, plan, store)
    if place is not None:
        document = store.document(place.path)[0]
        position = document.position(place.route, on_key=True)
        return SpecLine(route, store.display(place.path), position.line, printable(position.text.strip()))
    return SpecLine(route, store.display(specs.paths[kind]), None, "")


def _target(route: str) -> tuple[SpecKind, Route]:
    head, _, rest = route.partition(":")
    for kind in _KINDS:
        if rest and head == kind:
            return kind, tuple(rest.split("."))
    return "profile", tuple(route.split("."))


def _written(kind: SpecKind, route: Route, specs: SpecSet, store: SpecStore) -> Place | None:
    """The place of a route that stands in the spec itself, or in the profile that it extends."""
    place = specs.place(kind, *route)
    marks = store.document(place.path)[0].marks
    return place if route in marks else None


def _decided(route: Route, plan: Plan, store: SpecStore) -> Place | None:
    """Where an engine setting was decided when the profile does not say it: the model's or the hardware's spec."""
    if len(route) != 2 or route[0] != "settings":
        return None
    where = next((d.where for d in plan.decisions if d.route == f"engine.{route[1]}"), "")
    path, _, dotted = where.partition("#")
    found = tuple(dotted.split("."))
    return Place(path, found) if path and found in store.document(path)[0].marks else None


def _cause_lines(head: str, cause: Cause, lines: list[SpecLine], profile: str | None) -> list[str]:
    shown = [f"{head}: {cause.cause}", f"  line {cause.number}: {cause.line}"]
    if cause.code:
        more = f"; see also {', '.join(cause.see)}" if cause.see else ""
        shown.append(
            f"  code: {cause.code} ({'docs/deploy.md' if cause.code.startswith('DPL') else f'`podwright explain {cause.code}`'}){more}"
        )
    for number, line in enumerate(lines):
        name = "change" if number == 0 else "or"
        shown.append(f"  {name}: {line.file}:{line.line}: {line.text}" if line.line else f"  {name}: {line.file}: add {line.route}")
    if not lines and cause.change:
        shown.append(f"  change: {', '.join(cause.change)} in the profile" + ("" if profile else " (name the profile to see the line)"))
    return [*shown, f"  fix: {cause.fix}"]
