"""Plan -> question."""

from __future__ import annotations

import json
from pathlib import Path

from compiler.resolve import resolve_plan
from compiler.verify.question import asked_flags, card_facts, draft_repo, job_of, subjects
from tests.support import specset
from tests.unit.verify.recorded import subject_of


def test_what_only_the_pod_has_is_left_out() -> None:
    argv = ("vllm", "serve", "m", "--tokenizer", "a/b", "--max-num-seqs", "8", "--chat-template=/x", "--trust-remote-code")
    assert asked_flags(argv, None) == ["--max-num-seqs", "8", "--trust-remote-code"]


def test_parsers_are_asked_about_unless_a_plug_in_brings_them() -> None:
    parsers = ("--enable-auto-tool-choice", "--tool-call-parser", "mine", "--reasoning-parser=qwen3")
    assert asked_flags(("vllm", "serve", "m", *parsers), None) == list(parsers)
    assert asked_flags(("vllm", "serve", "m", *parsers, "--tool-parser-plugin", "/x.py", "--seed", "1"), None) == ["--seed", "1"]


def test_a_connector_is_asked_about_unless_its_package_is_the_pods() -> None:
    for config, asked in (
        ({"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}, False),
        ({"kv_connector": "LMCacheMPConnector"}, True),
        ({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}, True),
    ):
        option = ["--kv-transfer-config", json.dumps(config)]
        assert asked_flags(("vllm", "serve", "m", *option, "--seed", "1"), None) == [*(option if asked else ()), "--seed", "1"]


def test_a_draft_becomes_its_folder() -> None:
    argv = ("vllm", "serve", "m", "--speculative-config", json.dumps({"model": "a/draft", "num_speculative_tokens": 8}), "--seed", "1")
    assert draft_repo(argv) == "a/draft"
    flags = asked_flags(argv, Path("/d"))
    assert json.loads(flags[1]) == {"model": "/d", "num_speculative_tokens": 8} and flags[2:] == ["--seed", "1"]
    assert draft_repo(("vllm", "serve", "m", "--speculative-config", '{"method": "mtp"}')) is None


def test_the_card_is_the_hardware_specs() -> None:
    specs = specset("ornith-2xa40")
    assert card_facts(resolve_plan(specs).hardware, specs.hardware) == {
        "name": "NVIDIA A40",
        "capability": "8.6",
        "bytes": 46068 << 20,
        "count": 2,
        "nvlink": False,
    }


def test_every_engine_of_a_swap_set_is_asked() -> None:
    specs = specset("ornith-qwen38-swap")
    assert [subject.name for subject in subjects(resolve_plan(specs), specs)] == ["ornith-qwen38-swap", "qwen38-blackwell"]


def test_variables_that_decide_go_along_and_folders_do_not() -> None:
    job = job_of(
        subject_of(
            "ornith-2xa40",
            {
                "profile": {
                    "env.VLLM_ALLOW_LONG_MAX_MODEL_LEN": {"value": "1", "reason": "x"},
                    "env.VLLM_CONFIG_ROOT": {"value": "/x", "reason": "x"},
                }
            },
        ),
        Path("/m"),
        None,
        True,
    )
    assert job["env"]["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] == "1" and "VLLM_CONFIG_ROOT" not in job["env"]
    assert job["model"] == "/m" and job["build"] is True and job["kv_bytes"] > 1 << 30


def test_stages_of_a_pipeline_are_built_too() -> None:
    staged = subject_of("ornith-2xa40", {"profile": {"settings.tensor_parallel_size": 1, "settings.pipeline_parallel_size": 2}})
    job = job_of(staged, Path("/m"), None, True)
    assert job["build"] is True and "--pipeline-parallel-size" in job["argv"]
