"""Packages that a command takes for granted, and weights in another format than the model's name says."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Severity
from compiler.foreign.judge import judged
from compiler.foreign.reading import read_command
from compiler.foreign.specs import described
from compiler.load import SpecStore
from tests.support import SPECS

STORE = SpecStore([SPECS])
IMAGE = "docker run --gpus all --ipc=host vllm/vllm-openai:v0.27.1 --model ORG/M"


def _all(command: str, hardware: str | None = None) -> dict[str, Severity]:
    (launch,) = read_command(command).launches
    return {d.code: d.severity for d in judged(described(launch, STORE, hardware, "vllm-0.27.1")).diagnostics if d.severity is not Severity.INFO}


@pytest.mark.parametrize("command, severity", [
    ("""vllm serve ORG/M --speculative-config '{"method": "suffix"}'""", Severity.WARNING),
    (f"""{IMAGE} --speculative-config.method suffix""", Severity.ERROR),
    ("vllm serve ORG/M --omni --usp 2", Severity.WARNING),
    (f"{IMAGE} --omni", Severity.ERROR),
])  # fmt: skip
def test_a_package_that_is_not_there(command: str, severity: Severity) -> None:
    assert _all(command) == {"CMD018": severity}


def test_options_of_the_other_package_are_not_judged_and_those_of_nobody_are() -> None:
    assert "ENG001" not in _all("vllm serve ORG/M --omni --vae-use-tiling")
    assert _all("vllm serve ORG/M --vae-use-tiling") == {"ENG001": Severity.ERROR}


@pytest.mark.parametrize("command", [
    "vllm serve ORG/M-AWQ --quantization gptq_marlin",
    "vllm serve ORG/M-GPTQ-Int4 -q awq",
    "vllm serve ORG/M-FP8 --kv-cache-dtype fp8_e5m2",
    "vllm serve ORG/M-NVFP4 --kv-cache-dtype fp8_e5m2",
    "vllm serve google/gemma-3-27b-it --dtype half",
])  # fmt: skip
def test_a_format_that_the_name_denies(command: str) -> None:
    assert _all(command) == {"CMD019": Severity.WARNING}


@pytest.mark.parametrize("command", [
    "vllm serve ORG/M-AWQ --quantization awq_marlin",
    "vllm serve ORG/M-AWQ --quantization compressed-tensors",
    "vllm serve ORG/M-GPTQ --quantization moe_wna16",
    "vllm serve ORG/M --quantization awq",
    "vllm serve ORG/M-FP8 --kv-cache-dtype fp8_e4m3",
    "vllm serve RedHatAI/M-FP8-dynamic --kv-cache-dtype fp8_e5m2",
    "vllm serve google/gemma-3n-E4B-it --dtype float16",
    "vllm serve google/gemma-3-27b-it --dtype bfloat16",
    """vllm serve ORG/M --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'""",
])  # fmt: skip
def test_what_goes_together(command: str) -> None:
    assert not _all(command).keys() & {"CMD018", "CMD019"}


@pytest.mark.parametrize("command, hardware, code", [
    ("--attention-backend FLASHMLA", "rtx-4090", "QNT017"),
    ("--attention-backend TRITON_ATTN --kv-cache-dtype fp8", "a40", "KVC001"),
    ("--attention-backend FLASH_ATTN --kv-cache-dtype fp8", "rtx-4090", "KVC001"),
    ("--kv-cache-dtype nvfp4", "a40", "KVC007"),
    ("--max-num-batched-tokens 64 --max-num-seqs 256", "a40", "CTX010"),
    ("""--speculative-config '{"method": "eagle3", "num_speculative_tokens": 3}'""", "a40", "SPD011"),
    ("""--speculative-config '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 3}'""", "a40", "SPD014"),
    ("--quantization fp-8", None, "ENG004"),
    ("--enable-lora --moe-backend cutlass", None, "QNT020"),
])  # fmt: skip
def test_what_holds_for_every_model_is_said_without_its_spec(command: str, hardware: str | None, code: str) -> None:
    assert code in _all(f"vllm serve ORG/M {command}", hardware)


@pytest.mark.parametrize("command, hardware", [
    ("--attention-backend flashinfer --kv-cache-dtype fp8", "a40"),
    ("--attention-backend FLASH_ATTN --kv-cache-dtype fp8", "h100-sxm"),
    ("--quantization AWQ", None),
    ("--enable-lora --moe-backend marlin", None),
])  # fmt: skip
def test_and_nothing_more(command: str, hardware: str | None) -> None:
    assert _all(f"vllm serve ORG/M {command}", hardware) == {}


@pytest.mark.parametrize("command, hardware, says", [
    ("vllm serve Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "rtx-5090", True),
    ("vllm serve RedHatAI/M-FP8-block", "rtx-pro-6000", True),
    ("VLLM_USE_DEEP_GEMM=0 vllm serve MiniMaxAI/MiniMax-M2.7", "rtx-pro-6000", False),
    ("vllm serve Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "l40s", False),
    ("vllm serve Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", None, False),
    ("vllm serve Qwen/Qwen3.5-9B-FP8", "rtx-5090", False),
    ("vllm serve deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "rtx-5090", False),
])  # fmt: skip
def test_block_scales_on_a_card_without_their_kernel(command: str, hardware: str | None, says: bool) -> None:
    assert ("CMD019" in _all(command, hardware)) is says


def test_one_dash_for_two() -> None:
    assert _all("vllm serve ORG/M -language-model-only") == {"CMD006": Severity.ERROR}
