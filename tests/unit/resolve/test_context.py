"""The window: as asked, native, or the largest tier that surely fits; stretched only where the checkpoint keeps its rope."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from compiler.resolve.context import TIERS
from tests.support import REMOVE, Changes, specset, subject


def plan(base: str, changes: Changes | None = None) -> Plan:
    return resolve_plan(specset(base, changes))


def overrides(of: Plan) -> dict[str, object]:
    argv = of.engine.argv
    return json.loads(argv[argv.index("--hf-overrides") + 1]) if "--hf-overrides" in argv else {}


def test_asked_and_native() -> None:
    assert plan("nemotron-ada", {"profile": {"settings.max_model_len": 65536}}).engine.max_model_len == 65536
    native = plan("nemotron-ada", {"profile": {"settings.max_model_len": REMOVE}})
    assert native.engine.max_model_len == native.model.native_context
    assert [d.origin for d in native.decisions if d.route == "engine.max_model_len"] == ["default"]


def test_auto_takes_the_largest_tier_that_surely_fits() -> None:
    auto: Changes = {"profile": {"settings.max_model_len": "auto"}}
    large, small = plan("qwen3-coder-a40", auto), plan("qwen3-coder-a40", {**auto, "hardware": {"gpu.vram_mib": 24576, "gpu.cuda_total": REMOVE}})
    assert large.memory.verdict == small.memory.verdict == "fits"
    assert small.engine.max_model_len < large.engine.max_model_len <= large.model.native_context
    assert small.engine.max_model_len in TIERS
    assert str(small.engine.max_model_len) in small.engine.argv


def test_auto_where_nothing_fits_stays_at_the_smallest_tier() -> None:
    none = plan("qwen3-coder-a40", {"profile": {"settings.max_model_len": "auto"}, "hardware": {"gpu.vram_mib": 8192, "gpu.cuda_total": REMOVE}})
    assert (none.engine.max_model_len, none.memory.verdict) == (TIERS[-1], "refused")


YARN = {"factor": 4.0, "location": "text-config", "parameters": {"rope_theta": 10000000, "mrope_section": [11, 11, 10]}, "reason": "A test."}


@pytest.mark.parametrize(("location", "outer"), [("text-config", ("text_config", "rope_parameters")), ("top-level", ("rope_parameters",))])
def test_yarn_goes_where_the_checkpoint_keeps_it(location: str, outer: tuple[str, ...]) -> None:
    stretched = plan("qwen3-coder-a40", {"model": {"context": {"native": 262144, "yarn": YARN | {"location": location}}}, "profile": {"settings.max_model_len": 400000, "yarn_factor": 2.0}})
    rope: object = overrides(stretched)
    for key in outer:
        assert isinstance(rope, dict)
        rope = rope[key]
    assert rope == {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 262144, "rope_theta": 10000000, "mrope_section": [11, 11, 10]}
    assert stretched.model.yarn_factor == 2.0


def test_no_yarn_at_the_native_window() -> None:
    native = plan("qwen3-coder-a40", {"model": {"context": {"native": 262144, "yarn": YARN}}, "profile": {"settings.max_model_len": 262144}})
    assert (native.model.yarn_factor, overrides(native)) == (None, {})


def test_own_overrides_are_kept_beside_yarn() -> None:
    stretched = plan("qwen3-coder-a40", {
        "model": {"context": {"native": 262144, "yarn": YARN}},
        "profile": {"settings.max_model_len": 400000, "engine_args.hf_overrides": {"value": {"text_config": {"extra": 1, "rope_parameters": {"rope_theta": 5}}, "other": 2}, "reason": "A test."}},
    })  # fmt: skip
    found = overrides(stretched)
    assert found["other"] == 2
    assert isinstance(found["text_config"], dict)
    assert found["text_config"]["extra"] == 1
    assert (found["text_config"]["rope_parameters"]["rope_theta"], found["text_config"]["rope_parameters"]["factor"]) == (5, 4.0)


def test_auto_stretches_no_further_than_the_model_allows() -> None:
    auto = plan("nemotron-ada", {"model": {"context": {"native": 65536, "yarn": YARN | {"max_context": 131072}}}, "profile": {"settings.max_model_len": "auto"}})
    assert auto.engine.max_model_len == 131072


def test_a_release_that_takes_the_window_from_the_length_alone_is_told_it() -> None:
    """0.33 was asked: it refuses the window without, and takes the same rope with it."""
    for engine, told in (("vllm-0.27.1", None), ("vllm-0.33.0", 1_048_576)):
        plan = subject("ornith-ada", {"profile": {"engine": engine}}).plan
        override: Any = next(s.value for s in plan.engine.settings if s.name == "hf_overrides")
        assert override["text_config"].get("max_position_embeddings") == told
        assert override["text_config"]["rope_parameters"]["factor"] == 4.0
