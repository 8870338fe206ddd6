"""The Dockerfile: what is baked, in which order, and what never is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.plan.core import EnvVar, Package, Plan
from compiler.render.dockerfile import lock_parts, render_image
from compiler.render.environment import dockerfile_string
from tests.unit.render.plans import cpu_plan, example_image, example_plan, static_files

FILES = static_files()
PLANS = {
    "vllm-venv": example_plan(image=example_image(ssh=True, desktop=True)),
    "vllm-openai": example_plan(image=example_image(recipe="vllm-openai", base="vllm/vllm-openai:v0.27.1")),
    "vllm-cpu": cpu_plan(),
}


def dockerfile(plan: Plan) -> str:
    return next(a.text for a in render_image(plan, FILES) if a.path == "Dockerfile")


def instructions(text: str) -> list[str]:
    """Logical lines: comments left out, continuations joined."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [line for line in re.sub(r"\\\n\s*", "", plain).splitlines() if line.strip()]


@pytest.mark.parametrize("recipe", PLANS)
def test_everything_that_depends_on_the_profile_comes_last(recipe: str) -> None:
    lines = instructions(dockerfile(PLANS[recipe]))
    assert [line.split()[0] for line in lines[-6:]] == ["COPY", "COPY", "COPY", "LABEL", "ENTRYPOINT", "CMD"]
    edited = PLANS[recipe]
    image = example_image(**{f: getattr(edited.image, f) for f in edited.image.__dataclass_fields__} | {"labels": (EnvVar("a.b", "c"),)})
    changed = instructions(dockerfile(example_plan(image=image, model=edited.model, engine=edited.engine, profile="other")))
    assert [i for i, (a, b) in enumerate(zip(lines, changed, strict=True)) if a != b] == [len(lines) - 3]


@pytest.mark.parametrize("recipe", PLANS)
def test_no_secret_weight_or_builder_feature(recipe: str) -> None:
    text = dockerfile(PLANS[recipe])
    assert not re.search(r"^ARG|--mount|<<|HF_TOKEN|LD_LIBRARY_PATH|--version", "\n".join(instructions(text)), re.MULTILINE)
    assert "hf download" not in text and "snapshot_download" not in text


@pytest.mark.parametrize("recipe", PLANS)
def test_every_copied_path_is_in_the_bundle(recipe: str) -> None:
    plan = PLANS[recipe]
    paths = {a.path for a in render_image(plan, FILES)} | {"bootstrap.sh", "manifest.json"}
    for line in instructions(dockerfile(plan)):
        if line.startswith("COPY"):
            for source in line.split()[1:-1]:
                assert any(p == source or p.startswith(source) for p in paths), line


def test_scripts_can_be_run_and_caches_stay_out() -> None:
    artifacts = {a.path: a for a in render_image(PLANS["vllm-venv"], {**FILES, "common/__pycache__/x.pyc": b""})}
    assert artifacts["image/common/install-apt.sh"].mode == 0o755
    assert not any("__pycache__" in path for path in artifacts)
    assert artifacts[".dockerignore"].text.splitlines()[0] == "*"


def test_lock_becomes_layers_that_together_are_the_lock() -> None:
    parts = lock_parts(example_image(), FILES)
    assert list(parts) == ["1-cuda", "2-torch", "3-kernels", "4-dependencies", "5-engine"]
    whole = sorted(line for part in parts.values() for line in part.decode().splitlines())
    original = FILES["specs/engines/locks/example.txt"].decode()
    assert whole == sorted(line for line in original.splitlines() if not line.startswith("#"))
    assert parts["2-torch"] == b"torch==2.13.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:bc\n"


def test_layers_of_the_lock_come_before_extras_and_after_the_system() -> None:
    text = dockerfile(PLANS["vllm-venv"])
    order = ["FROM ", "install-apt.sh required", "install-apt.sh optional", "1-cuda", "2-torch", "5-engine", "fastokens==", "verify.py", "write-marker", "runtime/", "manifest.json"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)


def test_release_without_lock_is_installed_by_its_exact_number() -> None:
    assert "install-engine.sh /opt/venv 3.12 0.13.9 /opt/podwright/lock vllm==0.27.1" in dockerfile(example_plan(image=example_image(lock_file=None)))


def test_preview_image_is_not_asked_for_a_release_number() -> None:
    assert "verify.py vllm==0.27.1 " in dockerfile(example_plan())
    assert "verify.py vllm fastokens==0.3.5" in dockerfile(example_plan(image=example_image(exact_release=False)))


def test_engine_is_looked_for_where_the_base_brings_it_and_only_there() -> None:
    assert "RUN /opt/podwright/common/find-engine.sh vllm" in instructions(dockerfile(PLANS["vllm-openai"]))
    assert "RUN /opt/podwright/common/find-engine.sh vllm /opt/venv/bin/python" in instructions(dockerfile(PLANS["vllm-venv"]))
    assert "/opt/venv" not in dockerfile(PLANS["vllm-openai"])


def test_extras_of_one_profile_know_each_other() -> None:
    """A new transformers needs the new tokenizers of the same profile, and must not be held to the old one."""
    packages = (Package("transformers==5.16.1", "reads images"), Package("tokenizers==0.23.1", "its own"))
    lines = [line for line in instructions(dockerfile(example_plan(image=example_image(packages=packages)))) if "install-extra" in line]
    assert [line.split()[3:] for line in lines] == [["transformers==5.16.1", "tokenizers==0.23.1"], ["tokenizers==0.23.1", "transformers==5.16.1"]]


def test_thin_layer_gets_uv_only_for_extras() -> None:
    bare = example_plan(image=example_image(recipe="vllm-openai", packages=()))
    assert "install-uv.sh 0.13.9" in dockerfile(PLANS["vllm-openai"]) and "install-uv" not in dockerfile(bare)


def test_ssh_and_desktop_only_when_asked_for() -> None:
    plain = dockerfile(example_plan())
    assert "openssh" not in plain and "x11vnc" not in plain
    assert "openssh-server" in dockerfile(PLANS["vllm-venv"]) and "x11vnc" in dockerfile(PLANS["vllm-venv"])


def test_base_is_pinned_by_digest() -> None:
    assert f"FROM nvidia/cuda:13.0.1-devel-ubuntu24.04@sha256:{'0' * 64}\n" in dockerfile(example_plan())


def test_shell_metacharacters_stay_one_word() -> None:
    package = Package("evil==1; rm -rf /", "two\nlines\nRUN reboot")
    lines = instructions(dockerfile(example_plan(image=example_image(packages=(package,)))))
    assert "RUN /opt/podwright/common/install-extra.sh /opt/podwright/engine-python 'evil==1; rm -rf /'" in lines
    assert not any(line.startswith("RUN reboot") for line in lines)


@given(st.text())
def test_label_value_reads_back_as_its_words(value: str) -> None:
    quoted = dockerfile_string(value)
    assert "\n" not in quoted and "\r" not in quoted
    inner = quoted[1:-1]
    assert not re.search(r'(?<!\\)(\\\\)*["$]', inner), "nothing ends the word or is substituted"
    assert re.sub(r'\\(["\\$])', r"\1", inner) == " ".join(value.split())
