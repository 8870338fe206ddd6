"""Messages about a command name options and variables, never a key of a spec."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from compiler.diagnostics import Diagnostic
from compiler.foreign.judge import judged
from compiler.foreign.options import arguments
from compiler.foreign.reading import read_command
from compiler.foreign.specs import described
from compiler.foreign.wording import in_options
from compiler.lint import runner
from compiler.lint.reach import REACH, Reach
from compiler.load import SpecStore
from tests.support import ROOT, SPECS, subject

STORE = SpecStore([SPECS])
CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "cases" / "commands" / "failures.yaml").read_text("utf-8"))["cases"]
# What only somebody with specs could follow.
OF_SPECS = re.compile(r"\b(settings|engine_args|speculation|context|deploy)\.\w|hardware spec|yarn_factor|kv_store|podwright")


def _worded(text: str, command: str = "vllm serve ORG/M --no-such-thing 1") -> str:
    flags = subject("nemotron-ada").specs.flags
    (launch,) = read_command(command).launches
    return in_options(text, flags, arguments(launch, flags))


def _findings(case: dict[str, Any]) -> tuple[Diagnostic, ...]:
    (launch,) = read_command(case["command"]).launches
    return judged(described(launch, STORE, case.get("hardware"), case.get("engine"))).diagnostics


@pytest.mark.parametrize(("said", "asked"), [
    ("set max_num_seqs to 64 or less", "set --max-num-seqs to 64 or less"),
    ("write `kv_cache_dtype: fp8`, with this as its reason", "write `--kv-cache-dtype fp8`"),
    ("lower settings.max_num_seqs", "lower --max-num-seqs"),
    ("did you mean `max_num_batched_tokens`?", "did you mean `--max-num-batched-tokens`?"),
    ("`kv_cache_dtype: fp8_e4m4` is not a choice", "`--kv-cache-dtype fp8_e4m4` is not a choice"),
    ("leave quantization unset", "leave --quantization unset"),
    ("the quantization of experts", "the quantization of experts"),
    ("set enable_auto_tool_choice to true", "write --enable-auto-tool-choice"),
    ("write `enable_prefix_caching: false`", "write `--no-enable-prefix-caching`"),
    ("set speculation.method to off", "remove --speculative-config"),
    ("`compilation_config` has no key `block_size`", "`--compilation-config` has no key `block_size`"),
    ('set env NCCL_P2P_DISABLE: "1" in the hardware spec', "set NCCL_P2P_DISABLE=1 in its environment"),
    ("`no_such_thing` was removed", "`--no-such-thing` was removed"),
    ("`never_heard_of` was removed", "`never_heard_of` was removed"),
    ("in text_config.rope_parameters", "in text_config.rope_parameters"),
    ("--max-num-seqs and VLLM_MAX_MODEL_LEN stay", "--max-num-seqs and VLLM_MAX_MODEL_LEN stay"),
])  # fmt: skip
def test_a_key_becomes_the_option(said: str, asked: str) -> None:
    assert _worded(said) == asked


@pytest.mark.parametrize("case", [c for c in CASES if "command" in c], ids=lambda c: c["id"])
def test_no_message_about_a_reported_failure_speaks_of_specs(case: dict[str, Any]) -> None:
    for found in _findings(case):
        assert not OF_SPECS.search(f"{found.what}; {found.fix}"), found


def test_what_an_engine_serves_is_a_warning_in_a_command_and_a_refusal_stays_one() -> None:
    thinks = _findings({"command": "vllm serve ulkaa/Ornith-1.5-35B-A3B-AWQ-INT4", "hardware": "a40", "engine": "vllm-0.27.1"})
    assert {d.severity.value for d in thinks if d.code == "MDL002"} == {"warning"}
    refused = _findings({"command": "vllm serve ORG/M --enable-auto-tool-choice", "engine": "vllm-0.27.1"})
    assert {d.severity.value for d in refused if d.code == "MDL004"} == {"error"}


def test_a_command_on_a_release_that_was_not_checked_is_warned_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "REACH", {**REACH, "MDL004": Reach((0, 26, 0))})
    found = [d for d in _findings({"command": "vllm serve ORG/M --enable-auto-tool-choice", "engine": "vllm-0.27.1"}) if d.code == "MDL004"]
    assert [(d.severity.value, d.why.endswith("(not checked on this release, 0.27.1)")) for d in found] == [("warning", True)]
