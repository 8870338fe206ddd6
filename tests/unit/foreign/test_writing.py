"""Commands to specs: every option kept, unknown things said, and the result is what the loader takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.foreign.reading import read_command
from compiler.foreign.specs import described
from compiler.foreign.writing import Imported, imported
from compiler.load import SpecStore, load_specset
from compiler.load.yaml_text import parsed
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet
from tests.support import SPECS

STORE = SpecStore([SPECS])
TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"


def _imported(command: str, hardware: str | None = None, engine: str | None = "vllm-0.27.1") -> Imported:
    (launch,) = read_command(command).launches
    return imported(described(launch, STORE, hardware, engine), "mine")


def _profile(result: Imported) -> Any:
    document, problems = parsed("p", result.files["profiles/mine.yaml"])
    assert problems == []
    return document.data


def _loaded(result: Imported, folder: Path) -> SpecSet:
    for path, text in result.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    specs, problems = load_specset(SpecStore([folder, SPECS]), "mine")
    assert specs is not None, [d.what for d in problems]
    return specs


def test_every_option_has_its_place(tmp_path: Path) -> None:
    command = (
        "VLLM_LOGGING_LEVEL=DEBUG vllm serve cyankiwi/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit --max-model-len 128k --enforce-eager --no-enable-prefix-caching "
        "--served-model-name coder small --port 9000 --seed 7 --no-such-option 'a: b' --hf-overrides '{\"value\": 1}' --kv-cache-dtype fp8"
    )
    result = _imported(command, "a40")
    data = _profile(result)
    assert data["settings"] == {"enable_prefix_caching": False, "enforce_eager": True, "kv_cache_dtype": "fp8", "max_model_len": 128000}
    assert data["engine_args"] == {"hf_overrides": {"value": {"value": 1}}, "no_such_option": "a: b", "seed": 7}
    assert data["names"] == ({"name": "coder"}, {"name": "small"})
    assert data["bridge"] == {"port": 9000}
    assert data["env"] == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert (data["model"], data["hardware"], data["engine"]) == ("qwen3-coder-awq", "a40", "vllm-0.27.1")
    assert result.findings == ()
    argv = resolve_plan(_loaded(result, tmp_path)).engine.argv
    for words in (["--max-model-len", "128000"], ["--seed", "7"], ["--no-enable-prefix-caching"], ["--no-such-option", "a: b"], ["--hf-overrides", '{"value":1}']):
        assert any(list(argv[i : i + len(words)]) == words for i in range(len(argv))), words


def test_a_model_and_a_card_that_nobody_described_get_stubs(tmp_path: Path) -> None:
    result = _imported("vllm serve ORG/NEW --max-model-len 4096")
    assert set(result.files) == {"profiles/mine.yaml", "models/mine-model.yaml", "hardware/mine-hardware.yaml"}
    assert [d.code for d in result.findings] == ["CMD009", "CMD009"]
    assert "repo: ORG/NEW" in result.files["models/mine-model.yaml"]
    assert all(text.startswith("# A stub") for path, text in result.files.items() if path != "profiles/mine.yaml")
    assert _loaded(result, tmp_path).model.checkpoint.repo == "ORG/NEW"


def test_a_folder_of_weights() -> None:
    result = _imported("vllm serve /models/new")
    assert "folder: /models/new" in result.files["models/mine-model.yaml"]
    assert "repo:" not in result.files["models/mine-model.yaml"]


def test_secrets_are_named_and_never_written() -> None:
    result = _imported(f"HF_TOKEN={TOKEN} OTHER={TOKEN} MY_API_KEY=x vllm serve ORG/M --hf-token {TOKEN} --api-key {TOKEN}")
    assert TOKEN not in "".join(result.files.values())
    names = [secret["env"] for secret in _profile(result)["secrets"]]
    assert {"HF_TOKEN", "OTHER", "MY_API_KEY"} <= set(names)
    assert len(names) == len(set(names))
    assert "env" not in _profile(result)


def test_what_is_not_known_is_a_comment_and_a_finding() -> None:
    result = _imported("A=$B vllm serve ORG/M --seed $SEED --host 0.0.0.0", "a40")
    text = result.files["profiles/mine.yaml"]
    assert "# Not taken over: seed: its value hangs on SEED\n" in text
    assert "# Not taken over: host: " in text
    assert "# Not taken over: env A: " in text
    assert {d.what for d in result.findings} >= {"`seed` is not taken over", "`host` is not taken over"}


def test_one_gpu_stays_one_gpu() -> None:
    assert _profile(_imported("vllm serve ORG/M", "2xa40"))["settings"] == {"tensor_parallel_size": 1}
    assert _profile(_imported("vllm serve ORG/M -tp 2", "2xa40"))["settings"] == {"tensor_parallel_size": 2}


def test_a_release_without_a_spec_is_said() -> None:
    (launch,) = read_command("docker run vllm/vllm-openai:v0.11.0 ORG/M").launches
    result = imported(described(launch, STORE, "a40"), "mine")
    assert any("0.11.0" in d.what for d in result.findings)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(value=st.text(st.characters(exclude_categories=("Cs",)), max_size=30), key=st.sampled_from(["--seed", "--dtype", "--new-one", "--served-model-name", "--port", "--hf-overrides", "--config"]))
def test_any_value_gives_yaml_that_says_it(value: str, key: str) -> None:
    quoted = "'" + value.replace("'", "'\\''") + "'"
    read = read_command(f"X={quoted} vllm serve {quoted} {key}={quoted}")
    for launch in read.launches:
        data = _profile(imported(described(launch, STORE, "a40", "vllm-0.27.1"), "mine"))
        assert data["kind"] == "profile"


@pytest.mark.parametrize("name", ["nemotron-ada", "ornith-2xa40", "qwen38-2xa40"])
def test_a_shipped_command_comes_back_as_the_same_command(name: str, tmp_path: Path) -> None:
    import shlex

    from tests.support import subject

    own = subject(name)
    command = " ".join([*(f"{v.name}={shlex.quote(v.value)}" for v in own.plan.engine.env), shlex.join(own.plan.engine.argv)])
    (launch,) = read_command(command).launches
    again = resolve_plan(_loaded(imported(described(launch, STORE, own.specs.profile.hardware, own.specs.profile.engine), "mine"), tmp_path))
    taken = {s.name: s.flags for s in again.engine.settings}
    elsewhere = {"host", "port", "served_model_name", "revision", "tokenizer", "tokenizer_revision"}
    assert {s.name: s.flags for s in own.plan.engine.settings if s.flags and s.name not in elsewhere}.items() <= taken.items()
    assert again.engine.env == tuple(v for v in again.engine.env)
    assert {v.name: v.value for v in own.plan.engine.env}.items() <= {v.name: v.value for v in again.engine.env}.items()
