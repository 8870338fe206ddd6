"""Commands, scripts, Compose files and manifests to starts of an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.foreign.files import MAX_BYTES
from compiler.foreign.launch import Launch
from compiler.foreign.reading import Read, read_command, read_file
from compiler.foreign.source import texts

COMPOSE = """\
x-common: &common
  environment: {HF_TOKEN: "${HF_TOKEN}", VLLM_LOGGING_LEVEL: DEBUG}
services:
  web: {image: nginx}
  first:
    <<: *common
    image: vllm/vllm-openai:${TAG:-v0.27.1}
    command: >
      --model ORG/ONE
      --max-model-len ${LEN:-32768} --hf-overrides '{"a": 1}'
      --port ${PORT}
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2}]}}}
  second:
    image: mine/thing
    entrypoint: ["bash", "-c"]
    command: ["vllm serve ORG/TWO --seed $$SEED"]
    environment:
      - SEED=7
      - HF_TOKEN
"""
MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: x}
---
apiVersion: apps/v1
kind: StatefulSet
spec:
  template:
    spec:
      containers:
        - name: web
          image: nginx
        - name: engine
          image: vllm/vllm-openai:v0.26.0
          command: ["/bin/sh", "-c"]
          args:
            - |
              vllm serve ORG/ONE \\
                --kv-cache-dtype fp8 --seed $(SEED) --dtype $TYPE
          env:
            - {name: SEED, value: "7"}
            - {name: TYPE, value: half}
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hf, key: token}}
          resources: {limits: {nvidia.com/gpu: "4"}}
"""


def _file(folder: Path, name: str, text: str) -> Read:
    (folder / name).write_text(text, encoding="utf-8")
    return read_file(folder / name)


def _place(read: Read, launch: Launch, word: str) -> tuple[int, int]:
    found = next(w for w in launch.words if w.text == word)
    position = read.source.position(found.span)
    return position.line, position.column


@pytest.mark.parametrize(
    ("command", "words", "env"),
    [
        ("vllm serve ORG/M --a 1", ["ORG/M", "--a", "1"], {}),
        ("A=1 B='2 3' exec /opt/venv/bin/vllm serve ORG/M", ["ORG/M"], {"A": "1", "B": "2 3"}),
        ("env A=1 python3 -m vllm.entrypoints.openai.api_server --model ORG/M", ["--model", "ORG/M"], {"A": "1"}),
        ("export A=1\nnohup uv run vllm serve ORG/M > log 2>&1 &", ["ORG/M"], {"A": "1"}),
        ("sudo docker run -d --rm -it --gpus all -v ~/.cache:/root -p8000:8000 -e A=1 -eB=2 --env C=3 --ipc=host vllm/vllm-openai:v0.27.1 --model ORG/M", ["--model", "ORG/M"], {"A": "1", "B": "2", "C": "3"}),
        ("podman run --entrypoint bash vllm/vllm-openai -c \"A=1 vllm serve ORG/M --x 'y z'\"", ["ORG/M", "--x", "y z"], {"A": "1"}),
        ("docker run my/image vllm serve ORG/M", ["ORG/M"], {}),
        ("bash -lc 'cd /x && vllm serve ORG/M'", ["ORG/M"], {}),
    ],
)
def test_a_start_of_an_engine(command: str, words: list[str], env: dict[str, str]) -> None:
    read = read_command(command)
    assert read.problems == ()
    (launch,) = read.launches
    assert texts(launch.words) == words
    assert {name: word.text for name, word in launch.env.items()} == env


@pytest.mark.parametrize("command", ["", "   ", "pip install vllm", "docker run nginx", "docker run", "docker run -e", "bash -c", "vllm", "vllm bench serve"])
def test_what_starts_no_engine_is_said(command: str) -> None:
    read = read_command(command)
    assert read.launches == ()
    assert [d.code for d in read.problems] == ["CMD003"]


def test_compose(tmp_path: Path) -> None:
    read = _file(tmp_path, "compose.yaml", COMPOSE)
    first, second = read.launches
    assert (first.name, first.gpus, first.image and first.image.text) == ("first", 2, "vllm/vllm-openai:v0.27.1")
    assert texts(first.words) == ["--model", "ORG/ONE", "--max-model-len", "32768", "--hf-overrides", '{"a": 1}', "--port", "${PORT}"]
    assert first.words[-1].unknown == ("PORT",)
    assert first.env["HF_TOKEN"].unknown == ("HF_TOKEN",)
    assert first.env["VLLM_LOGGING_LEVEL"].text == "DEBUG"
    assert (second.name, texts(second.words)) == ("second", ["ORG/TWO", "--seed", "7"])
    assert second.env["HF_TOKEN"].unknown == ("HF_TOKEN",)
    assert _place(read, first, "--max-model-len") == (10, 7)
    assert _place(read, first, '{"a": 1}') == (10, 52)
    assert _place(read, second, "ORG/TWO") == (16, 27)


def test_kubernetes(tmp_path: Path) -> None:
    read = _file(tmp_path, "pod.yaml", MANIFEST)
    (launch,) = read.launches
    assert (launch.name, launch.gpus) == ("engine", 4)
    assert texts(launch.words) == ["ORG/ONE", "--kv-cache-dtype", "fp8", "--seed", "7", "--dtype", "half"]
    assert launch.env["HF_TOKEN"].unknown == ("HF_TOKEN",)
    assert _place(read, launch, "fp8") == (19, 34)


def test_a_script_with_an_array_and_windows_line_breaks(tmp_path: Path) -> None:
    text = "#!/bin/bash\nARGS=(\n  --seed 7  # why\n)\nexec vllm serve ORG/M \"${ARGS[@]}\"\n"
    read = _file(tmp_path, "start.sh", text.replace("\n", "\r\n"))
    (launch,) = read.launches
    assert texts(launch.words) == ["ORG/M", "--seed", "7"]


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.yaml", "services: {web: {image: nginx}}", "CMD003"),
        ("a.yaml", "a: 1\n", "CMD003"),
        ("a.yaml", "", "CMD003"),
        ("a.yaml", "services: [\n", "CMD001"),
        ("a.yaml", "services:\n\t- a\n", "CMD001"),
        ("a.yaml", "a: " + "[" * 500, "CMD001"),
        ("a.yaml", "services: {a: {image: vllm/vllm-openai, command: 5}, b: 3, c: [1], d: null, e: {environment: [1, {a: 2}], command: {a: b}}}", ""),
        ("a.yaml", "apiVersion: v1\nkind: Pod\nspec: {containers: [1, {image: vllm/vllm-openai, args: x, env: [1, {name: a}]}]}", "CMD010"),
        ("a.sh", "echo hello\n", "CMD003"),
        ("a.sh", "vllm serve 'x\n", "CMD002"),
        ("a.sh", "x" * (MAX_BYTES + 1), "CMD001"),
    ],
)
def test_bad_files_are_findings(tmp_path: Path, name: str, text: str, code: str) -> None:
    assert [d.code for d in _file(tmp_path, name, text).problems] == ([code] if code else [])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.sh").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.sh", Path("/dev/null"), tmp_path / "binary.sh"):
        (problem,) = read_file(path).problems
        assert problem.code == "CMD001"


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 10)]
    (problem,) = _file(tmp_path, "a.yaml", "\n".join([*lines, "services: {a: *a9}"])).problems
    assert problem.code == "CMD001"


@given(st.text(st.sampled_from("abservicmdnlo:-[]{}&*$\n '\"|>,#/v"), max_size=80))
def test_any_yaml_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "a.yaml"
    file.write_text("services:\n" + text, encoding="utf-8")
    read = read_file(file)
    assert read.launches or read.problems
