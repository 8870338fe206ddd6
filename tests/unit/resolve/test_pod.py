"""The pod around the engine: ports, processes, disk, secrets, caches."""

from __future__ import annotations

import pytest

from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from compiler.resolve.pod import NGINX_PORTS
from tests.support import REMOVE, Changes, specset


def plan(changes: dict[str, object] | None = None, base: str = "nemotron-ada", **others: dict[str, object]) -> Plan:
    every: Changes = {"profile": changes or {}, **others}
    return resolve_plan(specset(base, every))


def test_ports_and_processes_follow_what_is_switched_on() -> None:
    everything = plan({"desktop": {"port": 6081}, "container.ssh": True, "kv_store": {"size_gib": 4, "chunk": 256, "http_port": 8200, "zmq_port": 5556}})
    assert [str(p) for p in everything.network.ports] == ["8080/http", "6081/http", "22/tcp"]
    assert everything.network.listening == (22, 5556, 6081, 8080, 8200, 18081)
    assert [p.name for p in everything.processes] == ["engine", "bridge", "kv-store", "desktop"]
    bare = plan({"bridge.mode": "off", "container.ssh": False})
    assert ([str(p) for p in bare.network.ports], bare.network.listening, [p.name for p in bare.processes]) == (["8080/http"], (8080,), ["engine"])
    assert bare.network.engine_port == bare.network.endpoint_port == 8080


@pytest.mark.parametrize("name", ["nemotron-ada", "ornith-2xa40", "tiny-cpu", "swift-2x4090", "ornith-qwen38-swap"])
def test_shipped_profiles_avoid_the_official_images_ports(name: str) -> None:
    decided = plan(base=name)
    assert decided.network.forbidden == NGINX_PORTS
    assert not set(decided.network.listening) & set(NGINX_PORTS)


def test_disk_covers_every_model_and_draft() -> None:
    small = plan({"deploy.container_disk_gb": REMOVE, "speculation": REMOVE}, model={"checkpoint.download": "20GB", "resources": {}})
    assert (small.storage.needed_disk_gb, small.storage.container_disk_gb) == (40.0, 40)
    draft = plan({"deploy.container_disk_gb": REMOVE, "speculation": {"method": "dspark", "draft": {"repo": "a/b", "loaded": "5GB"}}}, model={"checkpoint.download": "20GB", "resources": {}})
    assert (draft.storage.needed_disk_gb, draft.storage.container_disk_gb) == (45.0, 50)
    unknown = plan({"deploy.container_disk_gb": REMOVE, "speculation": {"method": "dspark", "draft": {"repo": "a/b"}}}, model={"checkpoint.download": "20GB", "resources": {}})
    assert unknown.storage.needed_disk_gb == 43.8
    swap = plan(base="ornith-qwen38-swap")
    assert swap.swap is not None
    assert swap.storage.needed_disk_gb >= (swap.model.disk_bytes + sum(m.model.disk_bytes for m in swap.swap.members)) / 1e9
    assert plan({"deploy.container_disk_gb": 77}).storage.container_disk_gb == 77


def test_memory_of_the_host() -> None:
    assert plan({"deploy.min_ram_gb": 99}).storage.min_ram_gb == 99
    assert plan({"deploy.min_ram_gb": REMOVE}, model={"resources": {"ram": "50.5GB"}}).storage.min_ram_gb == 51
    assert plan({"deploy.min_ram_gb": REMOVE}, model={"resources": {}}).storage.min_ram_gb is None
    assert plan({"deploy.min_ram_gb": REMOVE, "kv_store": {"size_gib": 10, "chunk": 256}}, model={"resources": {}}).storage.min_ram_gb == 27


def test_network_volume_holds_the_hub_cache() -> None:
    mounted, local = plan({"deploy.network_volume": "vol"}), plan({"deploy.network_volume": REMOVE})
    assert (mounted.storage.mount_path, mounted.storage.hf_home) == ("/workspace", "/workspace/huggingface")
    assert (local.storage.mount_path, local.storage.hf_home) == (None, "/root/.cache/huggingface")
    assert {v.name: v.value for v in mounted.pod_env}["HF_HOME"] == mounted.storage.hf_home


def test_secrets_are_named_and_implied() -> None:
    decided = plan({"secrets": [{"env": "MY_TOKEN", "purpose": "Mine."}, {"env": "HF_TOKEN", "name": "my-hub", "required": False, "purpose": "Hub."}], "desktop": {}, "bridge.require_key": True})
    found = {s.env: s for s in decided.secrets}
    assert [s.env for s in decided.secrets] == sorted(found)
    assert (found["MY_TOKEN"].provider_name, found["HF_TOKEN"].provider_name, found["VNC_PASSWORD"].required) == ("my-token", "my-hub", True)
    assert decided.bridge.api_key_env in found
    assert plan({"secrets": [], "bridge.require_key": False}).bridge.api_key_env is None


def test_hub_token_is_required_where_something_is_private() -> None:
    base: dict[str, object] = {"secrets": [], "journal": REMOVE, "compile_cache": REMOVE, "publish": REMOVE}
    needed = {name: next(s.required for s in plan({**base, **extra}, model=model).secrets if s.env == "HF_TOKEN") for name, extra, model in (
        ("public", {}, {"checkpoint.gated": False}), ("gated", {}, {"checkpoint.gated": True}), ("journal", {"journal": {"repo": "a/b"}}, {"checkpoint.gated": False}))}  # fmt: skip
    assert needed == {"public": False, "gated": True, "journal": True}


def test_compile_cache_key_holds_all_that_changes_the_graph() -> None:
    base: dict[str, object] = {"compile_cache": {"repo": "a/b"}}

    def key(changes: dict[str, object] | None = None, **others: dict[str, object]) -> str:
        cache = plan({**base, **(changes or {})}, **others).compile_cache
        assert cache is not None
        return cache.key

    keys = [
        key(), key({"settings.max_num_seqs": 7}), key({"settings.max_num_batched_tokens": 4096}), key({"settings.kv_cache_dtype": "auto"}), key({"settings.max_model_len": 65536}),
        key(model={"checkpoint.revision": "0123456789abcdef0123456789abcdef01234567"}), key(hardware={"gpu.name": "Other"}), key(hardware={"count": 2}), key(engine={"torch": "9.9"}),
        key({"speculation": {"method": "ngram"}}),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert key({"settings.max_num_seqs": {"value": 64, "reason": "Another reason."}, "notes": ["x"], "bridge.port": 9000}) == key({"settings.max_num_seqs": 64})
    assert plan({"compile_cache": REMOVE}).compile_cache is None


def test_every_engine_of_a_swap_set_has_a_compile_cache_of_its_own() -> None:
    """Its key is that of the member's own plan, so that a pod which serves the member alone shares it."""
    decided = plan({"compile_cache": {"repo": "a/b"}}, base="ornith-qwen38-swap")
    assert decided.swap is not None and decided.compile_cache is not None
    caches = {m.profile: m.compile_cache for m in decided.swap.members}
    assert caches and all(cache is not None and cache.repo == "a/b" for cache in caches.values())
    assert decided.compile_cache.key not in {cache.key for cache in caches.values() if cache}
    for name, cache in caches.items():
        alone = plan({"compile_cache": {"repo": "c/d"}}, base=name).compile_cache
        assert cache is not None and alone is not None and (cache.key, cache.key_parts) == (alone.key, alone.key_parts)
    none = plan({"compile_cache": REMOVE}, base="ornith-qwen38-swap").swap
    assert none is not None and [m.compile_cache for m in none.members] == [None] * len(caches)


def test_publish_journal_and_watchdog() -> None:
    decided = plan({"publish": {"repo": "a/b", "poll": "1min", "when": "now"}, "journal": {"repo": "a/c", "period": "5min"}, "watchdog": {"probe_timeout": "2min", "failures_before_restart": 3}})
    assert (decided.publish.repo, decided.publish.path, decided.publish.poll_seconds, decided.publish.when) == ("a/b", "nemotron-ada/publication.json", 60.0, "now")
    assert decided.journal is not None
    assert (decided.journal.repo, decided.journal.period_s) == ("a/c", 300.0)
    assert (decided.watchdog.probe_timeout_s, decided.watchdog.failures_before_restart) == (120.0, 3)
    assert not decided.publish.allow_unsigned
    assert plan({"publish": {"repo": "a/b", "unsigned": True}}).publish.allow_unsigned
    assert plan({"publish": REMOVE}).publish.repo is None


def test_thinking_budgets_only_where_the_runner_takes_them() -> None:
    limit = {"limits": ["v2-runner-refuses-thinking-budget"]}
    assert plan(engine=limit).bridge.thinking_budget_supported
    assert not plan({"env.VLLM_USE_V2_MODEL_RUNNER": "1"}, engine=limit).bridge.thinking_budget_supported
    assert plan({"env.VLLM_USE_V2_MODEL_RUNNER": "1"}, engine={"limits": []}).bridge.thinking_budget_supported
