"""Plan -> the short text that is printed after a build, with the memory of one GPU drawn as a bar."""

from __future__ import annotations

import dataclasses
import math

from compiler.plan import Plan
from compiler.plan.core import ModelPlan
from compiler.plan.memory import Interval, MemoryPlan
from compiler.plan.speed import SpeedFigure, SpeedPlan
from compiler.units import grouped

BAR_WIDTH = 60
# Which of the planner's parts are drawn as one, with the label, and the glyphs for Unicode and for plain ASCII output.
_SHARES = (
    ("weights", ("weights",), "█", "W"),
    ("activations", ("activation",), "▓", "A"),
    ("graphs and runtime", ("non_torch", "cuda_graphs", "cuda_context", "outside_budget"), "▒", "G"),
    ("used by others", ("already_used",), "╳", "U"),
    ("KV cache", ("kv_cache",), "░", "K"),
    ("free", ("free",), "·", "."),
)


@dataclasses.dataclass(frozen=True, slots=True)
class FindingCounts:
    """How many findings of each severity a build had."""

    errors: int = 0
    warnings: int = 0
    infos: int = 0

    def __str__(self) -> str:
        parts = ((self.errors, "error"), (self.warnings, "warning"), (self.infos, "note"))
        said = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in parts if count]
        return ", ".join(said) or "none"


def report(plan: Plan, findings: FindingCounts, folder: str | None, *, ascii_only: bool = False) -> str:
    """What will run, on what, for how much, and where the bundle lies (None: nothing was written). Ends with a line break."""
    rows = [
        ("model", _model_line(plan.model)), ("hardware", _hardware_line(plan)),
        ("engine", f"{plan.engine.distribution} {plan.engine.release}, image {plan.image.name}"),
        *_capacity_rows(plan), *_speed_rows(plan.speed), ("price", price_text(plan)), *_swap_rows(plan),
    ]  # fmt: skip
    last = [("findings", str(findings)), *([("bundle", folder)] if folder else [])]
    lines = [f"{plan.profile}: {plan.summary}", *_table(rows), "", *memory_lines(plan.memory, device_name(plan), ascii_only=ascii_only), "", *_table(last)]
    return "\n".join(lines) + "\n"


def memory_lines(memory: MemoryPlan, device: str = "GPU", *, ascii_only: bool = False) -> list[str]:
    """The memory of one `device`, the engine's rank: verdict, bar and legend, each line indented by two."""
    shares = _shares(memory)
    bar = "".join((plain if ascii_only else glyph) * cells for (_, _, glyph, plain), cells in zip(_SHARES, _cells(shares), strict=True))
    legend = [f"{plain if ascii_only else glyph} {label} {_share_text(label, size, memory)}"
              for (label, _, glyph, plain), size in zip(_SHARES, shares, strict=True) if size >= 0.005 or label == "free"]
    legend[-1] += " GiB"
    width = len(legend) if len(legend) <= 3 else (len(legend) + 1) // 2
    rows = [legend[i : i + width] for i in range(0, len(legend), width)]
    lines = [f"  memory of one {device}: {memory.total_gib:.2f} GiB, {memory.utilization:.0%} planned with, verdict: {memory.verdict}",
             f"  |{bar}|", *("  " + "   ".join(row) for row in rows)]
    if memory.calibration is not None:
        lines.append(f"  KV cache corrected by the measured start {memory.calibration.evidence}, within {memory.calibration.slack_gib:.2f} GiB")
    if memory.shortfall_gib > 0:
        lines.append(f"  short by {memory.shortfall_gib:.2f} GiB; the longest window that fits is {grouped(memory.longest_context)} tokens")
    return lines


def device_name(plan: Plan) -> str:
    """What holds the engine's memory: a GPU, or the CPU's host."""
    return "CPU" if plan.hardware.architecture == "cpu" else "GPU"


def price_text(plan: Plan) -> str:
    """The price an hour and a day with its date, or why there is none."""
    deploy = plan.deploy
    if deploy.price_usd_h is None:
        return "own machine" if deploy.provider == "local" else "not known"
    dated = f" (read {deploy.price_date})" if deploy.price_date else ""
    return f"${deploy.price_usd_h:.2f} an hour, ${deploy.price_usd_h * 24:.2f} a day{dated}"


def interval_text(interval: Interval, pattern: str = "{:,.0f}") -> str:
    """`mid (low to high)`, or the middle alone where all three look the same."""
    low, mid, high = (pattern.format(value) for value in (interval.low, interval.mid, interval.high))
    return mid if low == mid == high else f"{mid} ({low} to {high})"


def speed_lines(speed: SpeedPlan) -> list[str]:
    """One line for each way to serve: alone, together, and reading a prompt; or one that says why there is no number."""
    kinds = {kind: [f for f in speed.figures if f.kind == kind] for kind in ("solo", "aggregate", "prefill")}
    said = {"solo": "alone", "aggregate": f"with {kinds['aggregate'][0].sessions} sessions together" if kinds["aggregate"] else "", "prefill": "prefill"}
    lines = [f"{said[kind]} {', '.join(_rate_text(f) for f in figures)}" for kind, figures in kinds.items() if figures]
    return lines or [f"no number. {speed.reason}"]


def _rate_text(figure: SpeedFigure) -> str:
    at = f" at {grouped(figure.context)} tokens" if figure.context else ", the prompts' lengths not recorded"
    return f"{interval_text(figure.tok_s)} tok/s{at}"


def _speed_rows(speed: SpeedPlan) -> list[tuple[str, str]]:
    return [("" if i else "speed", line) for i, line in enumerate(speed_lines(speed))]


def _model_line(model: ModelPlan) -> str:
    at = " at " + model.revision[:12] if model.revision else ""
    return f"{model.repo}{at}, {model.quantization}, served as {model.served_names[0]}"


def _hardware_line(plan: Plan) -> str:
    hardware = plan.hardware
    size = f", {hardware.vram_mib / 1024:.1f} GiB each" if hardware.architecture != "cpu" else ""
    return f"{hardware.count} x {hardware.name}{size}"


def _capacity_rows(plan: Plan) -> list[tuple[str, str]]:
    memory = plan.memory
    return [
        ("context", f"{grouped(plan.engine.max_model_len)} tokens; the KV cache admits one of {grouped(memory.longest_context)}, "
                    f"{grouped(memory.longest_context_safe)} at its smallest"),
        ("concurrency", f"{interval_text(memory.concurrency, '{:.2f}')} full windows at once, up to {plan.engine.max_num_seqs} sequences"),
        ("KV cache", f"{interval_text(memory.kv_tokens)} tokens, {memory.bytes_per_token:,.0f} bytes a token on each {device_name(plan)}"),
    ]


def _swap_rows(plan: Plan) -> list[tuple[str, str]]:
    members = plan.swap.members if plan.swap else ()
    return [("swaps with", f"{m.model.served_names[0]} ({m.profile}), {grouped(m.engine.max_model_len)} tokens")
            for m in members if m.profile != plan.profile]


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<12}{value}" for name, value in rows]


def _shares(memory: MemoryPlan) -> list[float]:
    sizes = {part.name: part.gib for part in memory.parts}
    known = {name for _, names, _, _ in _SHARES for name in names}
    extra = math.fsum(size for name, size in sizes.items() if name not in known)
    shares = [math.fsum(sizes.get(name, 0.0) for name in names) for _, names, _, _ in _SHARES]
    return [size + extra if label == "graphs and runtime" else size for (label, _, _, _), size in zip(_SHARES, shares, strict=True)]


def _cells(shares: list[float]) -> list[int]:
    """Cells of the bar for each share: by largest remainder, so that they always add up to its width."""
    drawn = [max(0.0, size) for size in shares]
    total = math.fsum(drawn)
    if total <= 0:
        return [0] * (len(drawn) - 1) + [BAR_WIDTH]
    exact = [size / total * BAR_WIDTH for size in drawn]
    cells = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (cells[i] - exact[i], i))
    for i in by_remainder[: BAR_WIDTH - sum(cells)]:
        cells[i] += 1
    return cells


def _share_text(label: str, size: float, memory: MemoryPlan) -> str:
    if label == "KV cache":
        return interval_text(memory.kv_gib, "{:.2f}")
    return f"{size:.2f}"
