"""Families by the names of models, and parsers that do not belong to them."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Severity
from compiler.foreign.named import family_named
from compiler.foreign.reading import read_command
from compiler.foreign.specs import described
from compiler.load import SpecStore
from tests.support import SPECS

STORE = SpecStore([SPECS])


@pytest.mark.parametrize(
    "model, name",
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder"),
        ("Qwen/Qwen3-8B-AWQ", "qwen3"),
        ("Qwen/Qwen3.8-27B-FP8", "qwen3_8"),
        ("openai/gpt-oss-120b", "gpt_oss"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama_3_1"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "nemotron_3_nano"),
        ("zai-org/GLM-4.5", "glm_4_5"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", None),
        ("nvidia/Llama-3.1-Nemotron-70B-Instruct", None),
        ("NousResearch/Hermes-3-Llama-3.1-8B", None),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral"),
    ],
)
def test_families(model: str, name: str | None) -> None:
    assert family_named(model) == name


def _found(command: str) -> list[Severity]:
    (launch,) = read_command(command).launches
    return [d.severity for d in described(launch, STORE).problems if d.code == "CMD016"]


@pytest.mark.parametrize(
    "model, parsers",
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "--tool-call-parser hermes"),
        ("Qwen/Qwen3.5-9B", "--tool-call-parser hermes"),
        ("Qwen/Qwen3-8B", "--tool-call-parser qwen3_coder"),
        ("openai/gpt-oss-120b", "--tool-call-parser hermes"),
        ("zai-org/GLM-4.5", "--reasoning-parser qwen3"),
        ("meta-llama/Llama-3.1-8B-Instruct", "--tool-call-parser mistral"),
        ("deepseek-ai/DeepSeek-V3.1", "--tool-call-parser hermes"),
        ("openai/gpt-oss-20b", "--reasoning-parser deepseek_r1"),
        ("Qwen/Qwen3-Coder-Next", "--tool-call-parser hermes"),
    ],
)
def test_a_parser_of_another_family(model: str, parsers: str) -> None:
    assert _found(f"vllm serve {model} {parsers}") == [Severity.WARNING]


@pytest.mark.parametrize(
    "command",
    [
        "Qwen/Qwen3-Coder-30B-A3B-Instruct --tool-call-parser qwen3_coder",
        "Qwen/Qwen3-8B --tool-call-parser hermes --reasoning-parser deepseek_r1",
        "Qwen/Qwen3-30B-A3B-Thinking-2507 --reasoning-parser deepseek_r1",
        "ORG/Own-7B --tool-call-parser hermes",
        "./checkpoint --tool-call-parser hermes",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B --reasoning-parser deepseek_r1 --tool-call-parser hermes",
        "zai-org/GLM-4.5-Air --tool-call-parser glm45 --reasoning-parser glm45",
        "Qwen/Qwen3-Coder-30B-A3B-Instruct --tool-call-parser mine --tool-parser-plugin p.py",
        "$MODEL --tool-call-parser hermes",
        "cyankiwi/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit --tool-call-parser hermes",  # A spec describes it: MDL001 looks.
        "Qwen/Qwen3-Next-80B-A3B-Instruct --tool-call-parser hermes",
        "ibm-granite/granite-4.0-h-small --tool-call-parser hermes",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --tool-call-parser qwen3_coder --reasoning-parser deepseek_r1",
        "google/gemma-4-31b-it --tool-call-parser gemma4 --reasoning-parser gemma4",
        "mistralai/Mistral-Small-3.2-24B-Instruct --tool-call-parser mistral",
        "meta-llama/Llama-3.1-8B-Instruct --tool-call-parser llama3_json",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct --tool-call-parser llama4_pythonic",
    ],
)
def test_parsers_that_suit_or_that_nobody_can_judge(command: str) -> None:
    assert _found(f"vllm serve {command}") == []
