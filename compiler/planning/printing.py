"""What `plan --what-if`, `plan --solve` and `fit` print, and the same as JSON."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from compiler.console import unicode_output
from compiler.diagnostics import Diagnostic, printable
from compiler.planning.comparison import Comparison, asked_text
from compiler.planning.fitting import Fit
from compiler.planning.solving import Candidate, Solution
from compiler.render.report import interval_text
from compiler.units import grouped

_NARROW = 120  # Columns of a terminal below which words of eight columns break.
_WIDE = 180  # Columns where nobody sees a terminal: a file, a pipe.
_SHOWN = 12  # Candidates that are printed; --json has them all.


def print_comparison(comparison: Comparison) -> None:
    """Both plans side by side: figures, settings that moved, and findings that came or went, one line each."""
    asked = ", ".join(asked_text(change) for change in comparison.changes) or "nothing changed"
    print(printable(f"{comparison.before.plan.profile}, what if {asked}"))
    _table(
        ("", "as it is", "changed"),
        [(row.name, row.before, row.after) for row in comparison.rows],
        {i for i, row in enumerate(comparison.rows) if row.differs},
    )
    moved = comparison.moved_settings
    if moved:
        _table(("decided value", "as it is", "changed"), [(row.name, _cut(row.before), _cut(row.after)) for row in moved], set())
    _print_findings("appears", comparison.appeared)
    _print_findings("vanishes", comparison.vanished)
    if not comparison.appeared and not comparison.vanished:
        print("The findings are the same.")


def print_solution(solution: Solution) -> None:
    """The answer in words, and the candidates that were planned."""
    goal, answer = solution.goal, solution.found or solution.nearest
    if solution.found is not None:
        print(printable(f"{goal.text}: yes, {_what(solution.found)}"))
    else:
        print(printable(f"{goal.text}: cannot." + (f" The nearest miss, {_what(answer)}: {answer.missing}." if answer else "")))
    if answer is not None and answer.costs:
        print("\n".join(printable(f"  costs {cost}") for cost in answer.costs))
    rows = _chosen(solution)
    _table(
        ("change", "sessions held", "context", "verdict", "why not"),
        [_candidate_row(c) for c in rows],
        {i for i, c in enumerate(rows) if c is solution.found},
    )
    if len(solution.candidates) > len(rows):
        print(f"{len(solution.candidates)} plans were made; --json has them all.")


def solution_json(solution: Solution) -> dict[str, Any]:
    """The answer with every candidate."""
    found, nearest = (_candidate_json(c) if c is not None else None for c in (solution.found, solution.nearest))
    return {"goal": solution.goal.text, "found": found, "nearest": nearest, "candidates": [_candidate_json(c) for c in solution.candidates]}


def print_fits(model: str, fits: Sequence[Fit]) -> None:
    """One line for each hardware, those that fit first."""
    rows = [_fit_row(fit) for fit in fits]
    print(printable(f"{model}: fits {sum(fit.fits for fit in fits)} of {len(fits)} hardware specs"))
    header = ("hardware", "GPUs", "engine", "settings", "context", "full windows", "USD/h", "why not")
    kept = [i for i, name in enumerate(header) if not _is_narrow() or name not in ("GPUs", "engine")]
    _table([header[i] for i in kept], [[row[i] for i in kept] for row in rows], set())


def _is_narrow() -> bool:
    """True in a terminal too narrow for every column; the hardware's name tells the cards, and --json has all."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < _NARROW


def _fit_row(fit: Fit) -> tuple[str, ...]:
    settings = ", ".join((fit.profile or "defaults", *fit.changes))
    price = f"{fit.usd_per_hour:.2f} ({fit.price_date})" if fit.usd_per_hour is not None else "not known"
    if not fit.fits:
        return (fit.hardware, fit.gpus, fit.engine, settings, "-", "-", price, _cut(fit.why, 90))
    return (fit.hardware, fit.gpus, fit.engine, settings, grouped(fit.context), interval_text(fit.windows, "{:.2f}"), price, "")


def _what(candidate: Candidate) -> str:
    return f"with {', '.join(candidate.changes)}" if candidate.changes else "as it is"


def _chosen(solution: Solution) -> list[Candidate]:
    """The candidates that people see: the start, the answer, and the best of the others."""
    answer = solution.found or solution.nearest
    others = sorted(
        (c for c in solution.candidates[1:] if c is not answer), key=lambda c: (c.verdict != "fits", len(c.changes), -c.held.low)
    )
    return [*dict.fromkeys([*solution.candidates[:1], *others[: _SHOWN - 2], *([answer] if answer else [])])]


def _candidate_row(candidate: Candidate) -> tuple[str, ...]:
    held = interval_text(candidate.held, "{:.2f}")
    return (", ".join(candidate.changes) or "as it is", held, grouped(candidate.context), candidate.verdict, _cut(candidate.missing, 70))


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    return dataclasses.asdict(candidate) | {"held": candidate.held.to_json(2), "does": candidate.does}


def _print_findings(word: str, findings: Iterable[Diagnostic]) -> None:
    for d in sorted(findings, key=lambda d: (d.severity.rank, d.code, d.what)):
        print(printable(f"{word}: {d.code} {d.severity}: {d.what}"))


def _cut(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + ("…" if unicode_output() else "~")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], marked: set[int]) -> None:
    """A table on stdout; rows in `marked` stand out where there are colours, and by an asterisk where there are none."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
    table = Table(box=box.SIMPLE_HEAD if unicode_output() else box.ASCII, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for index, row in enumerate(rows):
        is_marked = index in marked
        sign = "* " if is_marked else "  " if marked else ""
        table.add_row(sign + printable(row[0]), *(printable(cell) for cell in row[1:]), style="bold" if is_marked else None)
    console.print(table)
