"""Commands that people write: what the lint says of their options alone is what the release's own parser says."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import Any

import pytest

from compiler.foreign.judge import judged
from compiler.foreign.reading import read_command
from compiler.foreign.specs import described
from compiler.load import SpecStore
from tests.integration.parts import engine_absent, engine_parts, parser_answers
from tests.support import SPECS

RELEASE = "0.27.1"
# Codes that say that the parser refuses; others speak of what happens later.
OF_THE_PARSER = {"CMD006", "CMD007", "ENG001", "ENG002", "ENG003", "ENG005", "ENG006", "ENG007", "MDL003"}
TAKEN = (
    "M", "--enforce-eager M", "M --max_model_len 32k", "M --max-model-len 25.6k", "M --max-model-len auto", "M --max-model-len -1", "M -tp 2 -pp=1",
    "M -O3", "M -O 2", "M -O=1", "M --no-enable-prefix-caching", "M --served-model-name a b --port 9000", "M --hf-overrides '{\"a\": {\"b\": [1]}}'",
    "M --speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'", "M --speculative-config.method mtp --speculative-config.num_speculative_tokens 2",
    "M --compilation-config.cudagraph_mode NONE", "M -cc.mode 3", "M --gpu-memory-utilization .9", "M --limit-mm-per-prompt '{\"image\": 2}'",
    "M --enable-auto-tool-choice --tool-call-parser hermes", "M --kv-cache-dtype fp8_e4m3", "M --middleware a.b --middleware c.d", "M -ep",
    "M --attention-backend FLASHINFER", "M --max-num-batched-tokens=8K --max-num-seqs 64", "M --generation-config vllm --trust-remote-code", "M --cpu-offload-gb 4",
)  # fmt: skip
REFUSED = (
    "M --swap-space 4", "M --max-num-seq 4", "M --no-such-option", "M stray", "M --max-model-len", "M --max-model-len 1.5M", "M --max-model-len many", "M --seed one",
    "M --kv-cache-dtype fp8_e9", "M --dtype float99", "M --max-num-seqs 4 5", "M --num-scheduler-steps 8", "M --disable-log-requests",
    "M --enable-reasoning --reasoning-parser qwen3", "M --gpu-memory-utilization much", "M --compilation-config '{\"no_such_key\": 1}'",
)  # fmt: skip


@functools.cache
def _answers() -> dict[str, dict[str, Any]]:
    """All questions to the parser at once: building it takes longer than thousands of answers."""
    parts = engine_parts(RELEASE)
    if parts is None:
        pytest.skip(engine_absent(RELEASE))
    return parser_answers(parts, {text: shlex.split(text) for text in (*TAKEN, *REFUSED)})


def _refusals(text: str) -> list[str]:
    (launch,) = read_command(f"vllm serve {text}").launches
    found = judged(described(launch, SpecStore([SPECS]), None, f"vllm-{RELEASE}")).diagnostics
    return [f"{d.code} {d.what}" for d in found if d.is_error and d.code in OF_THE_PARSER]


@pytest.mark.parametrize("text", TAKEN)
def test_the_lint_takes_what_is_right(text: str) -> None:
    assert _refusals(text) == []


@pytest.mark.parametrize("text", REFUSED)
def test_the_lint_refuses_what_is_wrong(text: str) -> None:
    assert _refusals(text)


@pytest.mark.real_engine
@pytest.mark.parametrize("text", TAKEN)
def test_the_parser_takes_it(text: str) -> None:
    answer = _answers()[text]
    assert answer["ok"], answer["error"]


@pytest.mark.real_engine
@pytest.mark.parametrize("text", REFUSED)
def test_the_parser_refuses_it(text: str) -> None:
    assert not _answers()[text]["ok"]


# Option files by what a command with one gets: the parser refuses an option that it does not know, so it tells what of a file it was given.
FILES = {
    "taken": ("M --config {}", "max-model-len: 8192\ngpu-memory-utilization: 0.90\nserved-model-name: [a, b]\nenforce-eager: true\nspeculative-config: {method: mtp, num_speculative_tokens: 2}\n", True),
    "an unknown option": ("M --config {}", "no-such-option: 1\n", False),
    "false is left out": ("M --config {}", "no-such-switch: false\nenable-prefix-caching: false\n", True),
    "an empty list is left out": ("M --config {}", "no-such-list: []\n", True),
    "nothing is opened after an equals sign": ("M --config={}", "no-such-option: 1\n", True),
    "a list is no mapping": ("M --config {}", "- port: 1\n", False),
    "null is a word": ("M --config {}", "max-num-seqs: null\n", False),
}  # fmt: skip


@pytest.mark.real_engine
def test_option_files_are_read_as_the_parser_reads_them(tmp_path: Path) -> None:
    parts = engine_parts(RELEASE)
    if parts is None:
        pytest.skip(engine_absent(RELEASE))
    texts = {}
    for number, (name, (text, content, _)) in enumerate(FILES.items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(content)
        texts[name] = text.format(file)
    (tmp_path / "options.json").write_text("{}")
    texts["another ending"] = f"M --config {tmp_path / 'options.json'}"
    answers = parser_answers(parts, {name: shlex.split(text) for name, text in texts.items()})
    for name, text in texts.items():
        is_taken = FILES[name][2] if name in FILES else False
        assert answers[name]["ok"] is is_taken, (name, answers[name]["error"])
        read = read_command(f"vllm serve {text}")
        errors = [d.code for d in read.problems if d.is_error]
        assert (errors == [] and _refusals(text) == []) is is_taken, name
