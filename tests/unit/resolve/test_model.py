"""The model plan: names in the order that clients need, the commit from spec or lock, and only the patches that apply."""

from __future__ import annotations

from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from tests.support import REMOVE, Changes, specset

SHA = "0123456789abcdef0123456789abcdef01234567"


def plan(changes: Changes | None = None, base: str = "qwen3-coder-a40") -> Plan:
    return resolve_plan(specset(base, changes))


def test_bare_name_comes_first_and_every_name_once() -> None:
    names = plan({"model": {"served_name": "bare", "aliases": ["other", "bare"]}, "profile": {"names": REMOVE, "settings.max_model_len": 65536}}).model.served_names
    assert names == ("bare", "claude-bare", "other")


def test_a_profiles_names_come_before_the_models() -> None:
    names = plan({"model": {"served_name": "bare", "aliases": []}, "profile": {"names": [{"name": "mine"}], "settings.max_model_len": 65536}}).model.served_names
    assert names == ("mine", "bare", "claude-bare")


def test_a_million_tokens_add_the_suffix() -> None:
    names = plan({"profile": {"settings.max_model_len": 1_000_000}}, "nemotron-ada").model.served_names
    assert all(f"{name}[1m]" in names for name in names if not name.endswith("[1m]"))
    below = plan({"profile": {"settings.max_model_len": 999_999}, "model": {"aliases": []}}, "nemotron-ada").model.served_names
    assert not any(name.endswith("[1m]") for name in below if name not in {n.name for n in specset("nemotron-ada").profile.names})


def test_revision() -> None:
    decided = plan({"model": {"checkpoint.revision": SHA}})
    assert decided.model.revision == SHA
    assert decided.engine.argv[decided.engine.argv.index("--revision") + 1] == SHA
    assert "--revision" not in plan({"model": {"checkpoint.revision": REMOVE}}).engine.argv


def test_tokenizer_replaces_the_checkpoints_own() -> None:
    decided = plan({"model": {"tokenizer": {"repo": "a/tok", "revision": SHA, "reason": "Broken."}}})
    argv = decided.engine.argv
    assert (argv[argv.index("--tokenizer") + 1], argv[argv.index("--tokenizer-revision") + 1]) == ("a/tok", SHA)
    assert decided.model.tokenizer is not None
    assert decided.model.tokenizer.why == "Broken."


def test_patches_apply_when_they_are_needed() -> None:
    patches = [{"file": "config.json", "key_path": ["a"], "append": ["b"], "only_with": when, "reason": when} for when in ("always", "mtp")]
    off = plan({"model": {"list_patches": patches}, "profile": {"speculation": REMOVE}})
    on = plan({"model": {"list_patches": patches}, "profile": {"speculation": {"method": "mtp"}}})
    assert [p.reason for p in off.model.config_patches] == ["always"]
    assert [p.reason for p in on.model.config_patches] == ["always", "mtp"]


def test_generated_model_is_served_from_its_folder() -> None:
    decided = plan(base="tiny-cpu")
    assert decided.model.generated
    assert decided.engine.argv[2].startswith("/opt/podwright/")
    assert "HF_TOKEN" not in {s.env for s in decided.secrets}


def test_bytes_read_for_a_token_are_summed() -> None:
    parts = [{"part": "attention", "weights": "bf16", "bytes_read_per_token": 10}, {"part": "rest", "weights": "bf16", "bytes_read_per_token": 5}, {"part": "vision", "weights": "bf16"}]
    assert plan({"model": {"quantization.parts": parts}}).model.bytes_read_per_token == 15
    assert plan({"model": {"quantization.parts": []}}).model.bytes_read_per_token is None


def test_kernel_is_the_highest_that_the_card_reaches() -> None:
    kernels = [{"min_compute_capability": c, "kernel": f"k{c}", "effective": "W4A16"} for c in ("8.0", "12.0", "8.9")]
    for capability, expected in (("8.6", "k8.0"), ("8.9", "k8.9"), ("10.0", "k8.9"), ("12.0", "k12.0"), ("7.5", "")):
        assert plan({"model": {"quantization.kernels": kernels}, "hardware": {"gpu.compute_capability": capability}}).model.kernel == expected
