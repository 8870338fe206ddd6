"""Every pydantic error becomes a finding at its key or value, with the key's meaning and the nearest key that exists."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compiler.load.validate import MOST_FINDINGS, validated
from compiler.schema import HardwareSpec, ModelSpec, ProfileSpec
from tests.unit.load.folders import CHILD, codes, loaded


@pytest.mark.parametrize(("lines", "code", "line", "column", "words"), [
    ("deploy: {pricee_ceiling: {usd_per_hour: 1.0}}", "SPC011", 4, 10, "Did you mean `price_ceiling`?"),
    ("bridge: {porrt: 80}", "SPC011", 4, 10, "Did you mean `port`?"),
    ("wachdog: {}", "SPC011", 4, 1, "Did you mean `watchdog`?"),
    ("zzz: 1", "SPC011", 4, 1, "Known keys here: "),
    ("deploy: {price_ceiling: {usd_per_hour: -1.0}}", "SPC013", 4, 40, "greater than 0"),
    ("deploy: {price_ceiling: {usd_per_hour: 0}}", "SPC013", 4, 40, "greater than 0"),
    ("deploy: {price_ceiling: {}}", "SPC012", 4, 10, "usd_per_hour"),
    ("deploy: {price_ceiling: 2.0}", "SPC013", 4, 25, "price_ceiling"),
    ("deploy: {container_disk_gb: -5}", "SPC013", 4, 29, "greater than 0"),
    ("deploy: {data_centers: [EU-SE-1, mars]}", "SPC013", 4, 34, "form"),
    ("deploy: {cuda: {versions: ['13']}}", "SPC013", 4, 28, "form"),
    ("deploy: {cuda: {versions: ['13.0\\n']}}", "SPC013", 4, 28, "form"),
    ("deploy: {cuda: {versions: ['１３.０']}}", "SPC013", 4, 28, "form"),
    ("bridge: {port: 70000}", "SPC013", 4, 16, "65535"),
    ("bridge: {port: '8080'}", "SPC013", 4, 16, "whole number"),
    ("bridge: {port: 8080.0}", "SPC013", 4, 16, "whole number"),
    ("bridge: {guard: 1}", "SPC013", 4, 17, "true or false"),
    ("bridge: {mode: fast}", "SPC013", 4, 16, "'translate', 'native', 'keepalive' or 'off'"),
    ("bridge: {ping: 5parsecs}", "SPC013", 4, 16, "not a duration"),
    ("settings: {max_model_len: lots}", "SPC013", 4, 27, "quantity"),
    ("settings: {max_model_len: {value: -1}}", "SPC013", 4, 35, "greater than 0"),
    ("settings: {max_num_seqs: {reason: none given}}", "SPC013", 4, 26, "max_num_seqs"),
    ("settings: {gpu_memory_utilization: 1.5}", "SPC013", 4, 36, "less than or equal to 1"),
    ("speculation: {method: \"off\", draft: {repo: a/b, revision: main}}", "SPC013", 4, 59, "40"),
    ("names: [{name: '$(id)'}]", "SPC013", 4, 16, "form"),
    ("secrets: [{env: 'A B', purpose: x}]", "SPC013", 4, 17, "form"),
    ("secrets: {env: A}", "SPC013", 4, 10, "list"),
    ("verified: '23 August'", "SPC013", 4, 11, "form"),
    ("extends: b", "SPC004", 4, 1, "duplicate"),
    ("ignore: [{rule: MEM001}]", "SPC012", 4, 10, "reason"),
    ("env: {A: 5}", "SPC013", 4, 10, "text"),
    ("swap: {members: []}", "SPC013", 4, 17, "at least 1"),
])  # fmt: skip
def test_findings_of_a_profile(tmp_path: Path, lines: str, code: str, line: int, column: int, words: str) -> None:
    specs, problems = loaded(tmp_path, CHILD + lines + "\n")
    assert specs is None
    (problem,) = problems
    assert (problem.code, problem.position and (problem.position.line, problem.position.column)) == (code, (line, column))
    assert words in problem.what + problem.fix


def test_a_value_is_refused_once(tmp_path: Path) -> None:
    assert codes(loaded(tmp_path, CHILD + "names: no\n")[1]) == ["SPC006"]
    assert codes(loaded(tmp_path, CHILD + "settings: {max_model_len: {value: 1e6}}\n")[1]) == ["SPC006"]


def test_a_wrong_value_says_what_to_do_and_what_its_key_is(tmp_path: Path) -> None:
    (found,) = loaded(tmp_path, CHILD + "settings: {max_num_seqs: {value: 0, reason: None at all.}}\n")[1]
    assert found.what == "`settings.max_num_seqs.value`: it must be greater than 0"
    assert found.fix == "Correct it; `max_num_seqs` is: Sequences decoded at once."


def test_an_option_that_is_no_setting_is_sent_to_the_engine_s_arguments(tmp_path: Path) -> None:
    (found,) = loaded(tmp_path, CHILD + "settings: {swap_space: 4}\n")[1]
    assert found.fix.startswith("Known keys here: async_scheduling, ")
    assert found.fix.endswith(" Any other option of the engine stands under `engine_args:`.")
    (near,) = loaded(tmp_path, CHILD + "settings: {enable_chunked_prefill: true}\n")[1]
    assert near.fix == "Did you mean `enable_expert_parallel`? Any other option of the engine stands under `engine_args:`."
    (typed,) = loaded(tmp_path, CHILD + "settings: {max_num_seq: 4}\n")[1]
    assert typed.fix == "Did you mean `max_num_seqs`?"


def model(**changes: object) -> dict[str, object]:
    layers = ({"kind": "full", "layers": 2, "kv_heads": 2, "head_dim": 64},)
    return {
        "kind": "model", "summary": "A test.", "served_name": "x", "checkpoint": {"repo": "a/b", "download": "1GB"},
        "architecture": {"name": "A", "model_type": "a", "family": "a", "vocab": 10, "kv": layers},
        "quantization": {"scheme": "none", "activations": "W16A16", "min_compute_capability": "8.0"}, "weights": {"loaded": "1GB"}, "context": {"native": 1024},
    } | changes  # fmt: skip


@pytest.mark.parametrize(("changes", "route", "words"), [
    ({"checkpoint": {"repo": "a/b", "download": "1GB", "revision": "main"}}, ("checkpoint", "revision"), "form"),
    ({"checkpoint": {"repo": "a/b", "download": "1GB", "revision": "A" * 40}}, ("checkpoint", "revision"), "form"),
    ({"checkpoint": {"repo": "../b", "download": "1GB"}}, ("checkpoint", "repo"), "form"),
    ({"checkpoint": {"repo": "a/b/c", "download": "1GB"}}, ("checkpoint", "repo"), "form"),
    ({"checkpoint": {"repo": "a/b", "download": None}}, ("checkpoint", "download"), "quantity"),
    ({"context": {"native": "0"}}, ("context", "native"), "greater than 0"),
    ({"context": {"native": "9" * 400}}, ("context", "native"), "too large"),
    ({"quantization": {"scheme": "none", "activations": "W16A16", "min_compute_capability": "٨.٩"}}, ("quantization", "min_compute_capability"), "form"),
    ({"architecture": {"name": "A", "model_type": "a", "family": "a", "vocab": 10}}, ("architecture",), "either `kv` or `measured_kv`"),
    ({"architecture": {"name": "A", "model_type": "a", "family": "a", "vocab": 10, "kv": ({"kind": "sliding", "layers": 1, "kv_heads": 1, "head_dim": 8},)}}, ("architecture", "kv", 0), "`window`"),
    ({"architecture": {"name": "A", "model_type": "a", "family": "a", "vocab": 10, "kv": ({"kind": "tape"},)}}, ("architecture", "kv", 0), "tape"),
    ({"list_patches": ({"file": "../x.json", "key_path": ("a",), "append": ("b",), "reason": "c"},)}, ("list_patches", 0, "file"), "form"),
    ({"list_patches": ({"file": "x/y.json", "key_path": ("a",), "append": ("b",), "reason": "c"},)}, ("list_patches", 0, "file"), "form"),
    ({"engine_patches": ({"file": "$(id).py", "repo": "a/b", "releases": ("0.27.1",), "reason": "c"},)}, ("engine_patches", 0, "file"), "form"),
    ({"engine_patches": ({"file": "x.py", "repo": "a/b", "releases": (), "reason": "c"},)}, ("engine_patches", 0, "releases"), "at least 1"),
    ({"engine_patches": ({"file": "x.py", "repo": "a/b", "releases": ("1.0",), "expects": {"../x.py": "0" * 64}, "reason": "c"},)}, ("engine_patches", 0, "expects", "../x.py"), "form"),
])  # fmt: skip
def test_findings_of_a_model(changes: dict[str, object], route: tuple[str | int, ...], words: str) -> None:
    assert validated(ModelSpec, "m.yaml", model())[1] == []
    spec, problems = validated(ModelSpec, "m.yaml", model(**changes))
    assert spec is None
    assert [d.place.route for d in problems] == [route]
    assert words in problems[0].what + problems[0].fix


def test_negative_price_of_hardware() -> None:
    data = {"kind": "hardware", "summary": "A test.", "count": 1, "interconnect": {"kind": "none", "peer_to_peer": False}, "host": {"kind": "rented"},
            "gpu": {"name": "X", "architecture": "ada", "compute_capability": "8.9", "vram_mib": 1000}}  # fmt: skip
    assert validated(HardwareSpec, "h.yaml", data)[1] == []
    problems = validated(HardwareSpec, "h.yaml", data | {"prices": ({"usd_per_hour": -0.5, "date": "2026-08"},)})[1]
    assert [(d.code, d.place.route) for d in problems] == [("SPC013", ("prices", 0, "usd_per_hour"))]


def test_a_file_of_thousands_of_wrong_keys_stays_readable() -> None:
    start = time.process_time()
    spec, problems = validated(ProfileSpec, "p.yaml", {f"key{i}": i for i in range(60_000)})
    assert spec is None
    assert 0 < len(problems) <= MOST_FINDINGS
    assert time.process_time() - start < 10


@pytest.mark.parametrize("key", ["x" * 100_000, "\x1b[31m", "a\nb", "", "\u202e", "{{ 7 * 7 }}"])
def test_strange_keys_are_shown_short_and_clean(key: str) -> None:
    problems = validated(ProfileSpec, "p.yaml", {key: 1, "bridge": {key: 1}})[1]
    unknown = [d for d in problems if d.code == "SPC011"]
    assert len(unknown) == 2
    assert all(len(d.what) < 400 and d.what.isprintable() for d in unknown)


@pytest.mark.parametrize("data", [None, (), (1,), "x", 5, True])
def test_not_a_mapping(data: object) -> None:
    assert [d.code for d in validated(ProfileSpec, "p.yaml", data)[1]] == ["SPC010"]
