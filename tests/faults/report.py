"""The table in docs/reliability.md, from what a campaign found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults.campaign import Result

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
DOCUMENT = ROOT / "build" / "faults.json"
BEGIN, END = "<!-- begin figures -->\n", "<!-- end figures -->"
SECTIONS = ("A real engine", "Processes and the machine", "The Hub", "Publications", "Disks and caches", "Bad input at the start")


def tables(results: Sequence[Result], facts: dict[str, Any]) -> str:
    """One table a section."""
    played = [result for result in results if not result.skipped]
    text = (f"{facts['date']}, {facts['machine']}; {len(played)} faults in {facts['seconds']} s, "
            f"{sum(not result.problems for result in played)} went as they must.\n")  # fmt: skip
    for section in SECTIONS:
        rows = [result for result in results if result.section == section]
        if rows:
            text += f"\n### {section}\n\n| fault | played by | what clients saw | recovered | left behind | lost |\n|---|---|---|---|---|---|\n"
            text += "".join(row(result) for result in rows)
    return text


def row(result: Result) -> str:
    """One line of a table."""
    if result.skipped:
        return f"| {result.name} | {result.player} | SKIPPED: {_cell(result.skipped)} | | | |\n"
    recovered = "" if result.recovered_s is None else f"{result.recovered_s:.1f} s: {result.recovered_to}"
    recovered += f" ({'; '.join(result.notes)[:240]})" if result.notes and recovered else ""
    saw = result.clients + (f"; Anthropic's SDK: {result.sdk}" if result.sdk else "")
    lost = result.lost if not result.problems else f"{result.lost}; **not as it must be**: {'; '.join(result.problems)[:200]}"
    return f"| {result.name} | {result.player} | {_cell(saw)} | {_cell(recovered)} | {_cell(', '.join(result.left) or 'nothing')} | {_cell(lost)} |\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "/")


def write_page(results: Sequence[Result], facts: dict[str, Any]) -> None:
    """Put the tables into the page, between its markers."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}{tables(results, facts)}{END}{tail}")
