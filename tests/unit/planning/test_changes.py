"""Paths and values of the command line, and the specs that they make."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.load import SpecStore
from compiler.planning import Planned, planned_profile
from compiler.planning.changes import Change, changed_store, of_command_line, parsed_changes, parsed_value
from tests.support import SPECS, specset

SHIPPED = SpecStore([SPECS])


def changes(profile: str, *texts: str) -> list[Change]:
    """The changes, all of them sound."""
    found, problems = parsed_changes(texts, specset(profile))
    assert not problems, problems
    return found


def after(profile: str, *texts: str) -> Planned:
    """The plan with the changes."""
    base = planned_profile(SHIPPED, profile)[0]
    assert base is not None
    store, problems = changed_store(SHIPPED, base.specs, changes(profile, *texts))
    assert not problems, problems
    found, problems = planned_profile(store, profile)
    assert found is not None, problems
    return found


@pytest.mark.parametrize(
    ("path", "kind", "route"),
    [
        ("engine.gpu_memory_utilization", "profile", ("settings", "gpu_memory_utilization")),
        ("gpu_memory_utilization", "profile", ("settings", "gpu_memory_utilization")),
        ("settings.gpu_memory_utilization", "profile", ("settings", "gpu_memory_utilization")),
        ("settings.gpu_memory_utilization.value", "profile", ("settings", "gpu_memory_utilization")),
        ("profile.settings.max_num_seqs", "profile", ("settings", "max_num_seqs")),
        ("serve.context", "profile", ("settings", "max_model_len")),
        ("serve.max_num_seqs", "profile", ("settings", "max_num_seqs")),
        ("engine.max-num-seqs", "profile", ("settings", "max_num_seqs")),
        ("engine.enable_flashinfer_autotune", "profile", ("engine_args", "enable_flashinfer_autotune")),
        ("engine.release", "engine", ("release",)),
        ("engine", "profile", ("engine",)),
        ("hardware", "profile", ("hardware",)),
        ("hardware.gpu.vram_mib", "hardware", ("gpu", "vram_mib")),
        ("hardware.prices[0].usd_per_hour", "hardware", ("prices", 0, "usd_per_hour")),
        ("model.weights.loaded", "model", ("weights", "loaded")),
        ("speculation.method", "profile", ("speculation", "method")),
        ("env.NCCL_DEBUG", "profile", ("env", "NCCL_DEBUG")),
    ],
)
def test_paths(path: str, kind: str, route: tuple[str | int, ...]) -> None:
    change = changes("nemotron-ada", f"{path}=1")[0]
    assert (change.kind, change.route, change.value) == (kind, route, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.5", 0.5), ("true", True), ("null", None), ("256Ki", "256Ki"), ("[1, [2]]", (1, (2,))), ('{"a": [1]}', {"a": (1,)}),
     ("NaN", "NaN"), ("-Infinity", "-Infinity"), ("1e999", "1e999"), ("", ""), ("[" * 100_000, "[" * 100_000), ('"1"', "1")],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    assert parsed_value(text) == value
    assert type(parsed_value(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine.gpu_memory_utilisation=1", "`engine.gpu_memory_utilization`"),
        ("hardware.cuont=1", "`hardware.count`"),
        ("qqq.zzz=1", "docs/specs"),
        ("a..b=1", "docs/specs"),
        ("=1", "PATH=VALUE"),
        ("context", "gpu_memory_utilization=0.90"),
        ("\x1b[31m=1", "docs/specs"),
    ],
)
def test_a_path_that_names_nothing(text: str, said: str) -> None:
    found, problems = parsed_changes([text], specset("nemotron-ada"))
    assert not found
    assert [d.code for d in problems] == ["PLN001"]
    assert said in problems[0].fix + problems[0].what
    assert "\x1b" not in problems[0].what + problems[0].place.path


def test_all_that_is_wrong_is_said_at_once() -> None:
    _, problems = parsed_changes(["foo=1", "context=1", "serve.context=2", "bar"], specset("nemotron-ada"))
    assert [d.code for d in problems] == ["PLN001", "PLN001", "PLN001"]
    assert "twice" in problems[1].what
    assert problems[1].why == "Nobody can tell which of the two is meant."


def test_a_pasted_secret_is_not_echoed() -> None:
    secret = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    _, problems = parsed_changes([f"env.HF_TOKEN={secret}"], specset("nemotron-ada"))
    assert [d.code for d in problems] == ["SPC030"]
    assert secret not in str(problems)


def test_a_change_of_a_setting_is_planned_and_keeps_a_reason() -> None:
    plan = after("nemotron-ada", "engine.gpu_memory_utilization=0.90", "context=256Ki").plan
    assert (plan.memory.utilization, plan.engine.max_model_len) == (0.9, 262_144)
    decision = next(d for d in plan.decisions if d.route == "engine.gpu_memory_utilization")
    assert (decision.origin, decision.reason, decision.evidence) == ("profile", "Asked on the command line.", ())


def test_nothing_else_of_an_inherited_section_moves() -> None:
    """`ornith-2xa40-turboquant` inherits its speculation whole and its settings key by key."""
    before = planned_profile(SHIPPED, "ornith-2xa40-turboquant")[0]
    plan = after("ornith-2xa40-turboquant", "container.ssh=false", "max_num_seqs=9").plan
    assert before is not None
    moved = {s.name for s in plan.engine.settings if s not in before.plan.engine.settings}
    assert (moved, plan.image.ssh, before.plan.image.ssh) == ({"max_num_seqs"}, False, True)
    assert plan.image.packages == before.plan.image.packages


def test_another_hardware_and_a_key_of_it() -> None:
    plan = after("nemotron-ada", "hardware=2xa40", "hardware.gpu.vram_mib=49140").plan
    assert (plan.hardware.slug, plan.hardware.vram_mib, plan.engine.tensor_parallel) == ("2xa40", 49_140, 2)


def test_null_takes_a_key_away() -> None:
    assert after("nemotron-ada", "engine.max_num_seqs=null", "hardware.prices[1].usd_per_hour=0.5").plan.deploy.price_usd_h == 0.5


def test_the_store_below_stays_as_it_is() -> None:
    before = planned_profile(SHIPPED, "nemotron-ada")[0]
    after("nemotron-ada", "model.weights.loaded=30GB", "context=1k")
    again = planned_profile(SHIPPED, "nemotron-ada")[0]
    assert before is not None and again is not None
    assert before.plan == again.plan


@pytest.mark.parametrize(
    "text", ["summary.x=1", "hardware.prices[9].date=2026-01-01", "hardware.gpu.vram_mib.x=1", "hardware.prices.date=1"]
)
def test_a_path_through_a_value(text: str) -> None:
    specs = specset("nemotron-ada")
    _, problems = changed_store(SHIPPED, specs, changes("nemotron-ada", text))
    assert [d.code for d in problems] == ["PLN001"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("context=-3", "SPC013"),
        ("settings.max_num_seqz=3", "SPC011"),
        ("utilization=NaN", "SPC013"),
        ("engine=vllm-0.33.1", "SPC020"),
        ("model.weights=null", "SPC013"),
    ],
)
def test_a_value_that_the_spec_refuses_is_a_finding_at_the_change(text: str, code: str) -> None:
    specs = specset("nemotron-ada")
    asked = changes("nemotron-ada", text)
    store, _ = changed_store(SHIPPED, specs, asked)
    found, problems = planned_profile(store, "nemotron-ada")
    told = of_command_line(problems, [], asked)
    assert found is None
    assert [(d.code, d.place.path) for d in told if d.is_error] == [(code, f"--what-if {text}")]
