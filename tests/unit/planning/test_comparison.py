"""Two plans side by side."""

from __future__ import annotations

from compiler.diagnostics import Diagnostic
from compiler.planning.comparison import Comparison, compared
from tests.support import specset
from tests.unit.planning.test_changes import SHIPPED, after, changes


def comparison(profile: str, *texts: str) -> Comparison:
    """The plan of a shipped profile beside the one with the changes."""
    base = after(profile)
    return compared(base, after(profile, *texts), changes(profile, *texts))


def codes(findings: tuple[Diagnostic, ...]) -> set[str]:
    """Their codes."""
    return {d.code for d in findings}


def test_rows_and_settings_that_moved() -> None:
    found = comparison("nemotron-ada", "engine.gpu_memory_utilization=0.90")
    moved = {row.name for row in found.rows if row.differs}
    assert {"KV cache tokens", "KV cache GiB", "free GiB", "share planned with"} <= moved
    assert not moved & {"context", "weights GiB", "price", "verdict"}
    assert [(r.name, r.before, r.after) for r in found.moved_settings] == [("engine.gpu_memory_utilization", "0.85", "0.9")]


def test_no_change_is_no_difference() -> None:
    found = comparison("nemotron-ada", "engine.gpu_memory_utilization=0.85")
    assert not [row for row in found.rows if row.differs]
    assert not found.appeared + found.vanished


def test_findings_that_come_and_go() -> None:
    refused = comparison("qwen38-2xa40", "model.weights.loaded=200GB")
    assert "MEM001" in codes(refused.appeared)
    assert "HWR012" in codes(refused.vanished)
    assert [d.place.path for d in comparison("nemotron-ada", "max_num_seqs=6").appeared if d.code == "CTX013"] == [
        "--what-if max_num_seqs=6"
    ]


def test_json_holds_both_plans_whole() -> None:
    found = comparison("nemotron-ada", "context=131072").to_json(lambda some: [d.code for d in some])
    assert (found["before"]["engine"]["max_model_len"], found["after"]["engine"]["max_model_len"]) == (1_048_576, 131_072)
    assert found["changes"] == [{"asked": "context=131072", "spec": specset("nemotron-ada").paths["profile"], "value": 131_072}]
    assert found["ok"] is True
    assert SHIPPED.names("profile")
