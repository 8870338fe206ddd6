"""The explainer on recorded failures, on look-alikes, and on what no log should be able to do to it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.deploy.explainer import LONGEST_HEAD, LONGEST_TAIL, explained, fingerprints
from compiler.deploy.troubles import KINDS
from compiler.lint.registry import rules
from tests.support import ROOT

CASES = [case for file in sorted((ROOT / "tests/cases/explain").glob("*.yaml")) for case in yaml.safe_load(file.read_text("utf-8"))]
KNOWN = [case for case in CASES if case["expect"]]
ALIKE = [case for case in CASES if not case["expect"]]
HEALTHY = "\n".join(next(case["log"] for case in ALIKE if case["name"] == "a-healthy-start"))


def named(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: str(case["name"]))


@named(KNOWN)
def test_a_recorded_failure_is_explained(case: dict[str, Any]) -> None:
    found = explained("\n".join(case["log"]))
    assert found.causes, f"nothing explains {case['name']}"
    assert (found.causes[0].id, found.causes[0].code) == (case["expect"], case["code"])
    assert found.known is not case.get("hint", False)


@named([case for case in KNOWN if not case.get("hint")])
def test_it_is_found_in_a_long_log_whose_end_is_an_echo(case: dict[str, Any]) -> None:
    noise = [f"Loading safetensors checkpoint shards: {n}% Completed | {n}/205" for n in range(100)]
    log = [HEALTHY, *noise, *(f"\x1b[36m(EngineCore pid=41)\x1b[0;0m {line}" if not line.startswith(("{", "data:", "[boot")) else line for line in case["log"]), *noise]
    found = explained(log)
    assert found.causes[0].id == case["expect"] and found.causes[0].number > len(noise)


@named(ALIKE)
def test_what_only_looks_alike_stays_unknown(case: dict[str, Any]) -> None:
    found = explained("\n".join(case["log"]))
    assert not found.known and not found.causes, found.causes


def test_every_fingerprint_has_a_case_of_its_own_or_is_named_here() -> None:
    """A fingerprint that no case reaches may be dead: shadowed by an earlier one, or never matching."""
    reached = {cause.id for case in KNOWN for cause in explained("\n".join(case["log"])).causes}
    from_documents = {
        "method-unlike-checkpoint", "fast-tokenizer", "module-missing", "broken-json", "unknown-attention-backend", "unknown-parser", "numa-binding", "nf4-experts", "triton-resources",
        "unknown-draft-method", "draft-of-another-vocabulary", "request-too-long", "no-such-served-name", "offloaded-table", "container-command", "missing-module", "old-base-image",
        "cpu-without-instructions", "certificate", "too-many-files", "adapter-rank", "chat-template", "hub-limits-anonymous", "no-scheme", "tensor-sizes",
        "transformers-unlike-engine", "harmony-vocabulary", "media-tokens-unlike-places", "pipeline-not-supported", "workers-cannot-connect", "forked-after-cuda", "packages-conflict", "preemption",
    }  # fmt: skip
    assert {f.id for f in fingerprints()} - reached <= from_documents
    assert from_documents <= {f.id for f in fingerprints()}


@pytest.mark.parametrize("line, expect", [
    ("fastokens package (>= 0.2.0) is required when VLLM_USE_FASTOKENS=1", "fast-tokenizer"),
    ("ModuleNotFoundError: No module named 'xxhash'", "module-missing"),
    ("argument --speculative-config: Value {method: ngram} cannot be converted to <function loads at 0x7f>.", "broken-json"),
    ("speculative_config: invalid JSON: {method", "broken-json"),
    ("ValueError: Unknown attention backend: 'FLASH'", "unknown-attention-backend"),
    ("KeyError: 'invalid tool call parser: qwen9 (chose from { hermes })'", "unknown-parser"),
    ("could not detect the GPU-to-NUMA topology automatically", "numa-binding"),
    ("ValueError: bitsandbytes does not support MoE models", "nf4-experts"),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376", "triton-resources"),
    ("ValueError: Unsupported speculative method: dflash2", "unknown-draft-method"),
    ("AssertionError: Target and draft model should have the same vocabulary size", "draft-of-another-vocabulary"),
    ("This model's maximum context length is 32768 tokens. However, you requested 40000 tokens", "request-too-long"),
    ("The model `gpt-4` does not exist.", "no-such-served-name"),
    ("RuntimeError: UvaBuffer: UVA is not available", "offloaded-table"),
    ('exec: "podwright": executable file not found in $PATH: unknown', "container-command"),
    ("ModuleNotFoundError: No module named 'einops'", "missing-module"),
    ("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found", "old-base-image"),
    ("Illegal instruction (core dumped)", "cpu-without-instructions"),
    ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate is not yet valid", "certificate"),
    ("OSError: [Errno 24] Too many open files", "too-many-files"),
    ("ValueError: LoRA rank 64 is greater than max_lora_rank 16.", "adapter-rank"),
    ("ValueError: As of transformers v4.44, default chat template is no longer allowed", "chat-template"),
    ("429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/a/b", "hub-limits-anonymous"),
    ("ValueError: No compressed-tensors compatible scheme was found.", "no-scheme"),
    ("size of tensor a (2048) must match tensor b (4096)", "tensor-sizes"),
    ("ImportError: cannot import name 'Qwen4Config' from 'transformers'", "transformers-unlike-engine"),
    ("AttributeError: 'FooConfig' object has no attribute 'num_experts'", "transformers-unlike-engine"),
    ("openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download", "harmony-vocabulary"),
    ("ValueError: Attempted to assign 1024 multimodal tokens to 1000 placeholders", "media-tokens-unlike-places"),
    ("NotImplementedError: FooForCausalLM does not support pipeline parallel", "pipeline-not-supported"),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.2, 29500)", "workers-cannot-connect"),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", "forked-after-cuda"),
    ("x No solution found when resolving dependencies:", "packages-conflict"),
    ("WARNING Sequence group 0 is preempted by PreemptionMode.RECOMPUTE because there is not enough KV cache space.", "preemption"),
    ("RuntimeError: the provided PTX was compiled with an unsupported toolchain.", "driver-too-old"),
    ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "assembler-unknown-card"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "toolkit-unlike-headers"),
    ("RuntimeError: SM 12.x requires CUDA >= 12.9", "toolkit-unlike-headers"),
    ("RuntimeError: operator torchvision::nms does not exist", "other-build"),
    ("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, EADDRINUSE", "port-taken"),
    ("ValueError: Chunked MM input disabled but max_tokens_per_mm_item (16384) is larger than max_num_batched_tokens (8192).", "batch-width-refused"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx", "illegal-access"),
])  # fmt: skip
def test_what_documents_and_the_engines_own_texts_say(line: str, expect: str) -> None:
    assert explained(line).causes[0].id == expect


def test_the_data_name_rules_and_codes_that_exist() -> None:
    codes = {r.rule.code for r in rules()} | {kind.code for kind in KINDS} | set(re.findall(r"DPL\d{3}", (ROOT / "docs/deploy.md").read_text("utf-8")))
    for f in fingerprints():
        assert {c for c in (f.code, *f.see) if c} <= codes, f.id
        assert f.cause and f.fix and f.source, f.id
    ids = [f.id for f in fingerprints()]
    assert len(set(ids)) == len(ids)


def test_the_cause_comes_before_its_echoes_and_what_follows_from_it() -> None:
    found = explained([
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA error: an illegal memory access was encountered",
        "INFO No available shared memory broadcast block found in 60 seconds.", "WARNING Turning off hybrid kv cache manager",
    ])  # fmt: skip
    assert [c.id for c in found.causes] == ["out-of-memory", "illegal-access", "no-peer-access", "hybrid-manager-off"]


def test_a_line_that_was_wrapped_is_put_together() -> None:
    assert explained("The NVIDIA driver on your system is too old\n(found version 12080). Please update").causes[0].id == "driver-too-old"
    assert explained("ValueError: Total number of attention heads (28) must be\ndivisible by tensor parallel size (8)").causes[0].id == "heads-not-divisible"


def test_unknown_says_the_logs_own_last_error_and_nothing_more() -> None:
    found = explained("INFO fine\nValueError: the table is odd\nRuntimeError: Engine core initialization failed. See root cause above.\n")
    assert found.to_json() == {"known": False, "causes": [], "last_error": "ValueError: the table is odd"}


def test_no_secret_and_no_control_character_of_a_log_comes_out() -> None:
    token = "hf_" + "a1" * 16
    found = explained(f"\x1b[2J OSError: {token}\x07 is not a local folder and is not a valid model identifier\nERROR {token}")
    shown = str(found.to_json())
    assert token not in shown and "\x1b" not in shown and "\x07" not in shown


def test_a_log_of_many_megabytes_is_read_in_moments_and_keeps_its_line_numbers() -> None:
    line = "INFO 10:00:00 request {} took {} ms and went to slot {}"
    many = "\n".join(line.format(n, n * 7 % 100, n % 64) + chr(97 + n % 26) * (n % 60) for n in range(120_000))
    assert len(many) > LONGEST_HEAD + LONGEST_TAIL
    log = f"{many}\nRuntimeError: No CUDA GPUs are available\n"
    began = time.perf_counter()
    found = explained(log)
    assert time.perf_counter() - began < 20
    assert found.causes[0].id == "no-gpu-seen" and found.causes[0].number == 120_001


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    found = explained(text)
    assert found.known is any(cause.kind == "error" for cause in found.causes)
    assert all(1 <= cause.number <= len(text) + 1 for cause in found.causes) and len(found.last) <= len(text)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(KNOWN), st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\n\r{}[]"), max_size=60))
def test_words_around_a_line_do_not_hide_it(case: dict[str, Any], words: str) -> None:
    found = explained([f"{words}".replace("=", "").replace("*", "").replace("$", ""), *case["log"]])
    assert found.causes and case["expect"] in {c.id for c in found.causes}


def test_the_file_is_data_beside_its_module() -> None:
    assert (Path(explained.__code__.co_filename).parent / "fingerprints.yaml").is_file()


def test_a_deploy_that_fails_is_explained_by_what_stood_far_above() -> None:
    from compiler.deploy import troubles

    lines = ("ValueError: To serve at least one request with the models's max seq len (1048576), (16.0 GiB KV cache is needed", *(f"traceback line {n}" for n in range(60)))
    trouble = troubles.PodTrouble(troubles.EXITED, "pod p1 is EXITED during its start", profile="p", pod_id="p1", lines=lines)
    text = trouble.formatted()
    assert "cause: one whole window does not fit into the KV cache (MEM001)" in text and "in the specs: settings.max_model_len" in text
    assert text.count("  | ") == troubles.SHOWN_LINES
    found: Any = trouble.to_json()["explanation"]
    assert found["known"] and found["causes"][0]["code"] == "MEM001"
    unknown = troubles.PodTrouble(troubles.EXITED, "pod p1 is EXITED during its start", profile="p", pod_id="p1", lines=("ValueError: odd",))
    assert "cause:" not in unknown.formatted()
