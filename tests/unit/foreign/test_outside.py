"""The container around an engine, and the format of its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Severity
from compiler.foreign.outside import DEFAULT_SHARED, MIB, size_of
from compiler.foreign.reading import read_command, read_file
from compiler.foreign.source import hidden
from compiler.foreign.specs import described
from compiler.load import SpecStore
from tests.support import SPECS

STORE = SpecStore([SPECS])
OURS = ("CMD012", "CMD013", "CMD014", "CMD015", "CMD017", "CMD020")
IMAGE = "vllm/vllm-openai:v0.27.1"


def _found(command: str) -> dict[str, Severity]:
    (launch,) = read_command(command).launches
    return {d.code: d.severity for d in described(launch, STORE).problems if d.code in OURS}


def _in_file(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "given.yaml").write_text(text, "utf-8")
    (launch,) = read_file(tmp_path / "given.yaml").launches
    return [d.code for d in described(launch, STORE).problems if d.code in OURS]


@pytest.mark.parametrize("text, size", [
    ("16g", 16 * 1024 * MIB), ("64mb", DEFAULT_SHARED), ("1.5gb", 1536 * MIB), ("67108864", DEFAULT_SHARED),
    ("2GiB", 2048 * MIB), ("much", None), ("", None),
])  # fmt: skip
def test_sizes_as_docker_reads_them(text: str, size: int | None) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("options", [
    "--gpus all", "--gpus '\"device=0,1\"'", "--runtime nvidia", "--runtime=nvidia",
    "--device nvidia.com/gpu=all", "-e NVIDIA_VISIBLE_DEVICES=0",
])  # fmt: skip
def test_a_container_with_gpus(options: str) -> None:
    assert _found(f"docker run {options} {IMAGE} ORG/M") == {}


@pytest.mark.parametrize("command", [
    f"docker run -p 8000:8000 {IMAGE} ORG/M",
    f"podman run --rm {IMAGE} --model ORG/M",
])  # fmt: skip
def test_a_container_without_gpus(command: str) -> None:
    assert _found(command) == {"CMD012": Severity.WARNING}


@pytest.mark.parametrize("image", ["vllm/vllm-openai-cpu:v0.27.1", "rocm/vllm:latest", "intel/vllm-xpu:1"])
def test_images_for_other_devices_need_no_gpus_of_this_kind(image: str) -> None:
    assert _found(f"docker run {image} ORG/M") == {}


@pytest.mark.parametrize("options, scant", [
    ("", True), ("--shm-size 1g", True), ("--shm-size=256m", True),
    ("--shm-size 16g", False), ("--shm-size=2g", True), ("--shm-size=17179869184", False), ("--ipc=host", False), ("--ipc private", True),
    ("-v /dev/shm:/dev/shm", False), ("--mount type=tmpfs,target=/dev/shm", False), ("--shm-size $SIZE", False),
])  # fmt: skip
def test_shared_memory_of_eight_workers(options: str, scant: bool) -> None:
    assert _found(f"docker run --gpus all {options} {IMAGE} ORG/M -tp 8") == ({"CMD013": Severity.WARNING} if scant else {})


def test_one_worker_or_no_container_of_its_own_needs_none() -> None:
    assert _found(f"docker run --gpus all {IMAGE} ORG/M") == {}
    assert _found("vllm serve ORG/M -tp 8") == {}
    assert _found(f"docker run --gpus all --shm-size 2g {IMAGE} ORG/M -tp 4") == {}
    assert _found(f"docker run --gpus all {IMAGE} ORG/M -pp 2") == {}  # Stages may stand on other hosts.


@pytest.mark.parametrize("more, codes", [
    ("", ["CMD013"]), ("    shm_size: 16gb\n", []), ("    shm_size: 64m\n", ["CMD013"]),
    ("    ipc: host\n", []), ("    volumes: ['/dev/shm:/dev/shm']\n", []), ("    tmpfs: /dev/shm\n", []),
    ("    volumes: [{type: tmpfs, target: /dev/shm}]\n", []), ("    shm_size: ${SHM}\n", []),
])  # fmt: skip
def test_shared_memory_in_compose(tmp_path: Path, more: str, codes: list[str]) -> None:
    assert _in_file(tmp_path, f"services:\n  llm:\n    image: {IMAGE}\n    command: ORG/M -tp 2\n{more}") == codes


@pytest.mark.parametrize("mounts, pod, codes", [
    ("", "", ["CMD013"]), ("volumeMounts: [{name: s, mountPath: /dev/shm}], ", "", []), ("", "hostIPC: true, ", []),
])  # fmt: skip
def test_shared_memory_in_kubernetes(tmp_path: Path, mounts: str, pod: str, codes: list[str]) -> None:
    text = 'apiVersion: v1\nkind: Pod\n'
    text += f'spec: {{{pod}containers: [{{{mounts}name: a, image: "{IMAGE}", args: [--model, ORG/M, --tensor-parallel-size, "2"]}}]}}\n'
    assert _in_file(tmp_path, text) == codes


@pytest.mark.parametrize("command, severity", [
    (f"docker run --gpus all {IMAGE} unsloth/Qwen3-8B-GGUF:Q4_K_M", Severity.ERROR),
    ("docker run --gpus all own/vllm-with-plugin:v0.27.1 ORG/M-GGUF", Severity.WARNING),
    ("vllm serve ./m-Q4_K_M.gguf", Severity.WARNING),
    ("docker run --gpus all vllm/vllm-openai:v0.23.0 ./m.gguf", None),
    ("vllm serve ORG/gguf-tools-7B", None),
    ("vllm serve ORG/M --quantization gguf", Severity.WARNING),
    ("vllm serve ORG/M --load-format=gguf", Severity.WARNING),
])  # fmt: skip
def test_gguf_files(command: str, severity: Severity | None) -> None:
    assert _found(command).get("CMD014") == severity


@pytest.mark.parametrize("command, severity", [
    (f"docker run --gpus all {IMAGE} meta-llama/Llama-3.1-8B-Instruct", Severity.WARNING),
    (f"docker run --gpus all {IMAGE} google/gemma-3-27b-it", Severity.WARNING),
    (f"docker run --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface {IMAGE} google/gemma-2-9b", Severity.INFO),
    (f"docker run --gpus all --env-file .env {IMAGE} google/gemma-7b-it", Severity.INFO),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct", Severity.INFO),
    (f"docker run --gpus all -e HF_TOKEN {IMAGE} meta-llama/Llama-3.1-8B-Instruct", None),
    ("HUGGING_FACE_HUB_TOKEN=$TOKEN vllm serve meta-llama/Llama-3.1-8B-Instruct", None),
    (f"docker run --gpus all {IMAGE} google/gemma-4-31b-it", None),
    (f"docker run --gpus all {IMAGE} /models/meta-llama/Llama-3.1-8B-Instruct", None),
    (f"docker run --gpus all {IMAGE} unsloth/Llama-3.1-8B-Instruct", None),
])  # fmt: skip
def test_gated_repositories(command: str, severity: Severity | None) -> None:
    assert _found(command).get("CMD015") == severity


@pytest.mark.parametrize("options, arguments, found", [
    ("--gpus 2", "-tp 4", True), ("--gpus 4", "-tp 4", False), ("--gpus all", "-tp 4", False), ("--gpus 2", "", False),
    ("--gpus 2", "-tp 2 -pp 2", False), ("--gpus 1", "-tp 2 --distributed-executor-backend mp", True),
    ("--gpus 1", "-tp 2 --distributed-executor-backend ray", False), ("--gpus 1", "-tp 2 --nnodes 2", False),
])  # fmt: skip
def test_fewer_gpus_than_tensor_parallelism_spans(options: str, arguments: str, found: bool) -> None:
    assert ("CMD017" in _found(f"docker run --ipc=host {options} {IMAGE} ORG/M {arguments}")) == found


@pytest.mark.parametrize("command, codes", [
    ("vllm serve ORG/M -tp 4", ["CMD017"]), ("vllm serve ORG/M -tp 2", []), ("ray start --head; vllm serve ORG/M -tp 4", []),
])  # fmt: skip
def test_fewer_gpus_than_tensor_parallelism_spans_in_kubernetes(tmp_path: Path, command: str, codes: list[str]) -> None:
    text = 'apiVersion: v1\nkind: Pod\n'
    text += f'spec: {{hostIPC: true, containers: [{{name: a, image: "{IMAGE}", command: [sh, -c, "{command}"], resources: {{limits: {{nvidia.com/gpu: "2"}}}}}}]}}\n'
    assert _in_file(tmp_path, text) == codes


@pytest.mark.parametrize("command, found", [
    ("vllm serve ORG/M --api-key s3cr3t-of-mine", True), ("vllm serve ORG/M --api-key=s3cr3t-of-mine", True), ("vllm serve ORG/M --api_key s3cr3t-of-mine", True),
    ('vllm serve ORG/M --api-key "$KEY"', False), ("vllm serve ORG/M --api-key EMPTY", False), ("vllm serve ORG/M --api-key token-abc123", False),
    ("vllm serve ORG/M", False),
])  # fmt: skip
def test_a_key_in_clear_is_found_and_shown_nowhere(command: str, found: bool) -> None:
    assert ("CMD020" in _found(command)) is found
    assert "s3cr3t" not in hidden(command) and len(hidden(command)) == len(command)


@pytest.mark.parametrize("text", ['["--api-key", "s3cr3t-of-mine"]', "- --api-key\n  - s3cr3t-of-mine\n", "args: '--api-key s3cr3t-of-mine'"])
def test_a_key_in_a_list_is_shown_nowhere_either(text: str) -> None:
    assert "s3cr3t" not in hidden(text) and "--api-key" in hidden(text)
