"""manifest.json holds what the plan decided, in a form that the runtime reads back."""

from __future__ import annotations

import json

from pod.contract import Manifest

from compiler.plan.core import CompileCachePlan, ConfigPatch, EnvVar, HubFile, KvStorePlan, Override, Process, Setting, SwapMember, SwapPlan
from compiler.render.manifest import manifest, render_manifest
from tests.unit.render.plans import cpu_plan, example_engine, example_memory, example_model, example_plan


def test_the_runtime_reads_what_is_written() -> None:
    artifact = render_manifest(example_plan())
    assert artifact.path == "manifest.json"
    assert Manifest.from_bytes(artifact.content) == manifest(example_plan())
    assert artifact == render_manifest(example_plan())


def test_it_holds_the_command_and_names_of_secrets_only() -> None:
    found = manifest(example_plan())
    assert found.engine.launch.argv == example_plan().engine.argv
    assert [(s.env, s.required) for s in found.supervisor.secrets] == [("HF_TOKEN", False)]
    assert found.pod.ports == ("8080/http",)
    assert found.supervisor.follow is None


def test_everything_that_must_be_fetched_is_listed() -> None:
    engine = example_engine(drafts=(HubFile("owner/draft", "b" * 40),))
    model = example_model(tokenizer=HubFile("owner/tok"), config_patches=(ConfigPatch("config.json", ("a",), ("b",), "why"),))
    launch = manifest(example_plan(engine=engine, model=model)).engine.launch
    assert [(f.role, f.repo, f.expected_bytes) for f in launch.fetch] == [
        ("model", "owner/Example-30B", 26_000_000_000), ("draft", "owner/draft", None), ("tokenizer", "owner/tok", None),
    ]  # fmt: skip
    assert launch.config_patches[0].key_path == ("a",)


def test_a_generated_model_is_not_fetched_and_answers_anything() -> None:
    found = manifest(cpu_plan())
    assert found.engine.launch.fetch == ()
    assert found.supervisor.warm_up.expect is None
    assert manifest(example_plan()).supervisor.warm_up.expect == "eight"


def test_a_swap_set_lists_each_other_engine_once() -> None:
    own = SwapMember("example", example_model(), example_engine(), example_memory(), None)
    other = SwapMember("other", example_model(served_names=("o",)), example_engine(), example_memory(), None)
    for members in ((own, other), (other,)):
        swap = manifest(example_plan(swap=SwapPlan(members, True))).swap
        assert swap is not None and [e.name for e in swap.others] == ["other"]


def test_each_engine_of_a_swap_set_has_its_compile_cache() -> None:
    caches = {name: CompileCachePlan("o/cache", key, (EnvVar("model", name),)) for name, key in (("example", "k1"), ("other", "k2"))}
    other = SwapMember("other", example_model(served_names=("o",)), example_engine(), example_memory(), caches["other"])
    plan = example_plan(swap=SwapPlan((other,), True), compile_cache=caches["example"])
    found = manifest(plan).supervisor.compile_caches
    assert {name: (cache.repo, cache.key, cache.key_parts) for name, cache in found.items()} == {
        "example": ("o/cache", "k1", {"model": "example"}), "other": ("o/cache", "k2", {"model": "other"})}  # fmt: skip


def test_levers_know_their_option() -> None:
    settings = (Setting("max_num_seqs", 64, ("--max-num-seqs", "64")), Setting("async_scheduling", False, ("--no-async-scheduling",)))
    names = ("max_num_seqs", "async_scheduling", "optimization_level", "runtime.bridge", "bootstrap.offline")
    plan = example_plan(engine=example_engine(settings=settings), overrides=tuple(Override("VL_X", ".*", "", name) for name in names))
    options = [override.option for override in manifest(plan).supervisor.overrides]
    assert options == ["--max-num-seqs", "--async-scheduling", "--optimization-level", None, None]


def test_cache_and_store_are_carried_over() -> None:
    plan = example_plan(
        compile_cache=CompileCachePlan("o/cache", "k", (EnvVar("tp", "2"),)), kv_store=KvStorePlan(8, 1600, 5555, 8090),
        processes=(Process("kv-store", ("lmcache", "server"), "127.0.0.1", 8090),),
    )  # fmt: skip
    found = manifest(plan)
    assert found.supervisor.compile_caches["example"].key_parts == {"tp": "2"}
    assert found.kv_store is not None and found.kv_store.argv == ("lmcache", "server")
    assert json.loads(render_manifest(plan).text)["kv_store"]["chunk_tokens"] == 1600
