"""Plan -> question."""

from __future__ import annotations

import json
from pathlib import Path

from compiler.resolve import resolve_plan
from compiler.verify.question import asked_flags, card_facts, draft_repo, job_of, subjects
from tests.support import specset
from tests.unit.verify.recorded import subject_of


def test_what_only_the_pod_has_is_left_out() -> None:
    argv = (
        "vllm",
        "serve",
        "m",
        "--tokenizer",
        "a/b",
        "--max-num-seqs",
        "8",
        "--enable-auto-tool-choice",
        "--reasoning-parser=qwen3",
        "--trust-remote-code",
    )
    assert asked_flags(argv, None) == ["--max-num-seqs", "8", "--trust-remote-code"]


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
