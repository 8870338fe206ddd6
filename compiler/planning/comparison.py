"""Two plans side by side: the rows that differ, and the findings that a change brings or takes away."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from compiler.diagnostics import Diagnostic
from compiler.plan import Plan, to_json
from compiler.planning import Planned
from compiler.planning.changes import Change, of_command_line
from compiler.render.report import interval_text, price_text
from compiler.resolve.ledger import as_text
from compiler.units import grouped

_PARTS = (
    ("weights", "weights"), ("activation", "activations"), ("non_torch", "runtime"), ("cuda_graphs", "CUDA graphs, charged"),
    ("cuda_context", "CUDA context"),
    ("outside_budget", "beyond the share"), ("already_used", "used by others"), ("free", "free"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One figure of both plans, as text."""

    name: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        """True when the change moved it."""
        return self.before != self.after


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A plan and the plan with changes. `appeared` are findings that the changes brought, `vanished` those that they took away."""

    before: Planned
    after: Planned
    changes: tuple[Change, ...]
    appeared: tuple[Diagnostic, ...]
    vanished: tuple[Diagnostic, ...]

    @property
    def rows(self) -> list[Row]:
        """All figures, in the order in which they are printed."""
        return [
            Row(name, before, after)
            for (name, before), (_, after) in zip(_figures(self.before.plan), _figures(self.after.plan), strict=True)
        ]

    @property
    def moved_settings(self) -> list[Row]:
        """Decided values that differ: what was asked, and what followed from it."""
        before, after = ({d.route: d.value for d in one.plan.decisions} for one in (self.before, self.after))
        return [
            Row(route, before.get(route, "-"), after.get(route, "-"))
            for route in sorted(before.keys() | after.keys())
            if before.get(route) != after.get(route)
        ]

    def to_json(self, findings: Any) -> dict[str, Any]:
        """Both plans whole; `findings` turns diagnostics into JSON."""
        return {
            "ok": not self.after.is_refused,
            "changes": [{"asked": c.text, "spec": c.path, "value": to_json(c.value)} for c in self.changes],
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "settings": [dataclasses.asdict(row) for row in self.moved_settings],
            "appeared": findings(self.appeared), "vanished": findings(self.vanished),
            "before": to_json(self.before.plan) | {"ok": not self.before.is_refused, "findings": findings(self.before.findings)},
            "after": to_json(self.after.plan) | {"ok": not self.after.is_refused, "findings": findings(self.after.findings)},
        }  # fmt: skip


def compared(before: Planned, after: Planned, changes: Sequence[Change]) -> Comparison:
    """Both plans of one profile; findings count as the same when code and place and words are."""
    new = of_command_line(after.findings, before.findings, changes)
    known = {(d.code, d.place.route, d.what) for d in after.findings}
    gone = [d for d in before.findings if (d.code, d.place.route, d.what) not in known]
    return Comparison(before, after, tuple(changes), tuple(new), tuple(gone))


def asked_text(change: Change) -> str:
    """A change as the key and the value that were asked for."""
    return f"{change.text.partition('=')[0]} = {as_text(change.value)}"


def _figures(plan: Plan) -> list[tuple[str, str]]:
    memory = plan.memory
    sizes = {part.name: part.gib for part in memory.parts}
    return [
        ("verdict", memory.verdict),
        ("context", grouped(plan.engine.max_model_len)),
        ("longest context, expected", grouped(memory.longest_context)),
        ("longest context, surely", grouped(memory.longest_context_safe)),
        ("KV cache tokens", interval_text(memory.kv_tokens)),
        ("full windows at once", interval_text(memory.concurrency, "{:.2f}")),
        ("sequences at once", str(plan.engine.max_num_seqs)),
        ("KV cache GiB", interval_text(memory.kv_gib, "{:.2f}")),
        ("needed for one window GiB", f"{memory.needed_gib:.2f}"),
        ("bytes a token", f"{memory.bytes_per_token:,.0f}"),
        ("block, tokens", grouped(memory.block_size)),
        ("GPU GiB", f"{memory.total_gib:.2f}"),
        ("share planned with", f"{memory.utilization:.0%}, {memory.requested_gib:.2f} GiB"),
        *((f"{label} GiB", f"{sizes.get(name, 0.0):.2f}") for name, label in _PARTS),
        *_speeds(plan),
        ("price", price_text(plan)),
    ]


def _speeds(plan: Plan) -> list[tuple[str, str]]:
    """Expected rates at a short prompt; a dash where nothing is expected."""
    rates = {
        kind: next((interval_text(f.tok_s) for f in plan.speed.figures if f.kind == kind), "-") for kind in ("solo", "aggregate", "prefill")
    }
    return [("tok/s alone", rates["solo"]), ("tok/s together", rates["aggregate"]), ("tok/s prefill", rates["prefill"])]
