"""bundle.lock ties inputs to outputs; plan.json reads back."""

from __future__ import annotations

import json

from compiler.artifact import Artifact
from compiler.plan import Plan, from_json
from compiler.plan.core import InputFile, SwapMember, SwapPlan
from compiler.render.bundle_lock import render_bundle_lock
from compiler.render.plan_json import render_plan_json
from tests.unit.render.plans import example_engine, example_memory, example_model, example_plan


def test_inputs_and_outputs_are_hashed_in_order() -> None:
    plan = example_plan(inputs=(InputFile("specs/models/m.yaml", "b" * 64), InputFile("specs/engines/flags/vllm-1.json", "a" * 64)))
    outputs = [Artifact("b", b"2"), Artifact("a", b"1"), Artifact("bundle.lock", b"old")]
    lock = json.loads(render_bundle_lock(plan, outputs, {"S": "2026"}).text)
    assert list(lock["inputs"]) == ["specs/engines/flags/vllm-1.json", "specs/models/m.yaml"]
    assert lock["outputs"] == {a.path: a.sha256 for a in sorted(outputs[:2], key=lambda a: a.path)}
    assert lock["engine"]["flags"] == "specs/engines/flags/vllm-1.json"
    assert lock["schemas"] == {"S": "2026"}


def test_every_model_of_a_swap_set_is_locked_even_when_one_is_not() -> None:
    members = tuple(SwapMember(n, example_model(repo=f"o/{n}", revision=None), example_engine(), example_memory(), None) for n in ("x", "y"))
    lock = json.loads(render_bundle_lock(example_plan(swap=SwapPlan(members, False)), [], {}).text)
    assert list(lock["models"]) == ["o/x", "o/y", "owner/Example-30B"]
    assert lock["models"]["o/x"] is None
    assert lock["engine"]["flags"] is None


def test_plan_json_reads_back_whole() -> None:
    plan = example_plan()
    data = json.loads(render_plan_json(plan).text)
    assert from_json(Plan, data) == plan
    assert data["memory"]["verdict"] == "fits" and data["memory"]["kv_gib"] == {"low": 1.0, "mid": 2.0, "high": 3.0}
