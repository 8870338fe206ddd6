"""What commands print: findings, reports and JSON, to the right stream, with colours only where somebody can see them."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from compiler.diagnostics import Diagnostic, Locator, Severity, formatted, located

_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def print_findings(diagnostics: Iterable[Diagnostic], locator: Locator, *, least: Severity = Severity.WARNING) -> None:
    """Findings down to the severity `least` on stderr, sorted by place, and one line about those left out."""
    placed = located(diagnostics, locator)
    shown = [d for d in placed if d.severity.rank <= least.rank]
    for d in shown:
        print(_coloured(d), file=sys.stderr)
    hidden = len(placed) - len(shown)
    if hidden:
        print(f"{hidden} more of lower severity; -v shows them.", file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON document on stdout, in ASCII where stdout takes nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=not unicode_output(), indent=2) + "\n")


def tolerant_streams() -> None:
    """From here on a character that stdout or stderr cannot show is printed as its escape, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def counted(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`, or `no findings`."""
    counts = Counter(d.severity for d in diagnostics)
    parts = [f"{counts[s]} {s}{'s' if counts[s] > 1 else ''}" for s in Severity if counts[s]]
    return ", ".join(parts) or "no findings"


def unicode_output() -> bool:
    """True when stdout takes block characters."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return encoding.startswith("utf")


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Columns padded to the widest cell, two spaces apart."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
    return "\n".join(lines)


def _coloured(d: Diagnostic) -> str:
    text = formatted(d)
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        return text
    first, _, rest = text.partition("\n")
    return f"\033[1;{_COLOURS[d.severity]}m{first}\033[0m\n{rest}"
