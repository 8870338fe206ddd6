"""Two kinds of charts as SVG text. The same data give the same bytes: no clock, no random ids, numbers with fixed digits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 860, 70, 20, 46, 320
COLOURS = (
    "#0b6fb8",
    "#d1495b",
    "#2e8b57",
    "#b8860b",
    "#6a4c93",
    "#008b8b",
    "#8b4513",
    "#555555",
    "#c71585",
    "#556b2f",
    "#00a3a3",
    "#e07b00",
)
_TEXT = 'font-family="sans-serif" font-size="12" fill="#222222"'
_LEGEND_ROW = 18


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One series of points, drawn in order of x. A dashed one was replaced by later measurements."""

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One horizontal bar with what stands behind it."""

    name: str
    value: float
    shown: str
    colour: int = 0


def line_chart(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """Lines over a logarithmic x axis, with a legend below. `across` and `up` name the axes with their units."""
    xs, ys = [x for line in lines for x, _ in line.points], [y for line in lines for _, y in line.points]
    low, high, top = math.log2(min(xs)), math.log2(max(xs)), _ceiling(max(ys))
    bottom, right = TOP + HEIGHT, WIDTH - RIGHT

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + (right - LEFT) * (math.log2(x) - low) / ((high - low) or 1), bottom - HEIGHT * y / top

    parts = [*_grid(top, up), *(_tick(at(x, 0)[0], bottom, _short(x)) for x in _spread(sorted(set(xs)), at))]
    parts.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{bottom + 36}" text-anchor="middle" {_TEXT}>{escape(across)}</text>')
    for number, line in enumerate(lines):
        colour, dash = COLOURS[number % len(COLOURS)], ' stroke-dasharray="5 4"' if line.dashed else ""
        spots = [at(x, y) for x, y in sorted(line.points)]
        parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in spots)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        row = bottom + 58 + _LEGEND_ROW * number
        parts.append(f'<line x1="{LEFT}" y1="{row - 4}" x2="{LEFT + 24}" y2="{row - 4}" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(f'<text x="{LEFT + 32}" y="{row}" {_TEXT}>{escape(line.name)}</text>')
    return _document(title, bottom + 58 + _LEGEND_ROW * len(lines), parts)


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars, the longest as wide as the room; `shown` stands at the end of each."""
    most, name_width, row = max(bar.value for bar in bars), 400, 24
    room = WIDTH - name_width - RIGHT - 110
    parts = []
    for number, bar in enumerate(bars):
        y, width = TOP + row * number, room * bar.value / most
        parts.append(f'<text x="{name_width - 8}" y="{y + 15}" text-anchor="end" {_TEXT}>{escape(bar.name)}</text>')
        parts.append(
            f'<rect x="{name_width}" y="{y + 3}" width="{width:.1f}" height="{row - 8}" fill="{COLOURS[bar.colour % len(COLOURS)]}"/>'
        )
        parts.append(f'<text x="{name_width + width + 6:.1f}" y="{y + 15}" {_TEXT}>{escape(bar.shown)}</text>')
    return _document(title, TOP + row * len(bars) + 12, parts)


def _document(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">'
    caption = f'<text x="{LEFT}" y="24" font-family="sans-serif" font-size="15" font-weight="bold" fill="#222222">{escape(title)}</text>'
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            caption,
            *parts,
            "</svg>",
            "",
        ]
    )


def _grid(top: float, up: str) -> list[str]:
    bottom = TOP + HEIGHT
    lines = [f'<text x="{LEFT}" y="{TOP - 6}" text-anchor="start" {_TEXT}>{escape(up)}</text>']
    for step in range(6):
        y = bottom - HEIGHT * step / 5
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" {_TEXT}>{_short(top * step / 5)}</text>')
    return lines


def _tick(x: float, bottom: int, text: str) -> str:
    mark = f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" stroke="#888888"/>'
    return f'{mark}<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle" {_TEXT}>{text}</text>'


def _spread(values: Sequence[float], at: object) -> list[float]:
    """Those values whose labels do not run into each other."""
    kept: list[float] = []
    for value in values:
        if not kept or at(value, 0)[0] - at(kept[-1], 0)[0] > 44:  # type: ignore[operator]
            kept.append(value)
    return kept


def _ceiling(value: float) -> float:
    """The next number of the form 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if value >= 10_000 else f"{value:.4g}"
