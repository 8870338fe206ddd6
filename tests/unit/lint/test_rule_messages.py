"""What a finding tells its reader to do: a fix that helps, and never the very thing that was found."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from compiler.diagnostics import Diagnostic
from compiler.lint.runner import findings
from tests.support import subject


def _found(code: str, base: str, **changes: dict[str, Any]) -> Diagnostic:
    hits = [d for d in findings(subject(base, changes), "plan") if d.code == code]
    assert len(hits) == 1, [d.what for d in hits]
    return hits[0]


def test_tight_plan_without_a_safe_window_names_no_window() -> None:
    seen = subject("nemotron-ada")
    memory = dataclasses.replace(seen.plan.memory, verdict="tight", reasons=("little is left.",), longest_context_safe=0)
    tight = dataclasses.replace(seen, plan=dataclasses.replace(seen.plan, memory=memory))
    fix = next(d.fix for d in findings(tight, "plan") if d.code == "MEM002")
    assert " 0 tokens" not in fix
    assert "lower what takes the memory" in fix


def test_share_that_a_fix_names_is_accepted() -> None:
    fix = _found("MEM006", "qwen36-2x4090", profile={"settings.gpu_memory_utilization": 0.85}).fix
    named = re.search(r"to (0\.\d+) or less", fix)
    assert named is not None
    accepted = subject("qwen36-2x4090", {"profile": {"settings.gpu_memory_utilization": float(named[1])}})
    assert not [d for d in findings(accepted, "plan") if d.code == "MEM006"]


def test_hybrid_manager_switched_off_is_what_to_remove() -> None:
    changes = {"engine_args.disable_hybrid_kv_cache_manager": True}
    assert _found("MEM001", "ornith-ada", profile=changes).fix.startswith("remove disable_hybrid_kv_cache_manager;")


def test_draft_head_is_named_when_it_is_what_does_not_fit() -> None:
    seen = subject("qwen38-2xa40")
    memory = dataclasses.replace(seen.plan.memory, verdict="refused", reasons=("it is too much.",), shortfall_gib=0.01)
    refused = dataclasses.replace(seen, plan=dataclasses.replace(seen.plan, memory=memory))
    fix = next(d.fix for d in findings(refused, "plan") if d.code == "MEM001")
    assert fix.startswith("turn speculation off")


def test_cuda_floor_that_one_rule_names_passes_the_other() -> None:
    fix = _found("DEP004", "nemotron-ada", profile={"deploy.cuda": {"versions": ("12.8",)}}).fix
    assert fix == 'use minimum: "13.0"'
    accepted = subject("nemotron-ada", {"profile": {"deploy.cuda": {"minimum": "13.0"}}})
    assert not [d for d in findings(accepted, "plan") if d.code in ("DEP003", "DEP004")]


def test_deprecated_option_is_to_be_removed() -> None:
    assert _found("ENG012", "nemotron-ada", profile={"engine_args": {"calculate_kv_scales": True}}).fix.startswith("remove it")


def test_parser_that_was_found_wrong_is_not_the_one_to_set() -> None:
    fix = _found("MDL001", "qwen3-coder-a40", model={"parsers.tool_call": "hermes"}).fix
    assert fix == "set tool_call_parser to qwen3_coder"


def test_no_backend_is_promised_where_none_serves() -> None:
    turing = {"gpu.compute_capability": "7.5", "gpu.architecture": "turing"}
    assert _found("KVC001", "qwen3-coder-a40", hardware=turing).fix == "use a 16-bit cache"


def test_latent_attention_on_ampere_has_no_backend_for_an_fp8_cache() -> None:
    found = _found("KVC001", "kimi-linear-a40", profile={"settings.kv_cache_dtype": "fp8"})
    assert "latent attention on compute capability 8.6" in found.what
    assert found.fix == "use a 16-bit cache"
