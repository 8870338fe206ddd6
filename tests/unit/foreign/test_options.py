"""Arguments as the release's own parser reads them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import Place
from compiler.foreign.launch import launches_in
from compiler.foreign.options import Arguments, arguments
from compiler.foreign.reading import read_command
from compiler.foreign.source import Source
from compiler.load import SpecStore
from compiler.resolve.settings import words
from tests.support import SPECS

FLAGS = SpecStore([SPECS]).flags("flags/vllm-0.27.1.json", Place("x"))[0]
assert FLAGS is not None


def _arguments(text: str) -> Arguments:
    (launch,) = read_command(f"vllm serve {text}").launches
    assert FLAGS is not None
    return arguments(launch, FLAGS)


def _values(text: str) -> dict[str, Any]:
    return {dest: option.value for dest, option in _arguments(text).options.items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("M --max-model-len 32768", {"max_model_len": 32768}),
        ("M --max_model_len=32k", {"max_model_len": 32000}),
        ("M --max-model-len 32K", {"max_model_len": 32768}),
        ("M --max-model-len 1.5m", {"max_model_len": 1500000}),
        ("M --max-model-len auto", {"max_model_len": "auto"}),
        ("M --max-model-len -1", {"max_model_len": "auto"}),
        ("M -tp 2 -pp=3", {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}),
        ("M --gpu-memory-utilization .9", {"gpu_memory_utilization": 0.9}),
        ("M --enforce-eager --no-enable-prefix-caching", {"enforce_eager": True, "enable_prefix_caching": False}),
        ("M --served-model-name a b --port 1", {"served_model_name": ("a", "b"), "port": 1}),
        ("M --hf-overrides '{\"a\": {\"b\": [1]}}'", {"hf_overrides": {"a": {"b": (1,)}}}),
        ("M --hf-overrides '{broken'", {"hf_overrides": "{broken"}),
        ("M --speculative-config.method mtp --speculative-config.num_speculative_tokens 2", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}}),
        ("M --compilation-config.pass_config.fuse_norm_quant=true", {"compilation_config": {"pass_config": {"fuse_norm_quant": True}}}),
        ("M -O3", {"optimization_level": 3}),
        ("M --no-such 7 --nor-this", {"no_such": 7, "nor_this": True}),
        ("M --max-num-seqs many", {"max_num_seqs": "many"}),
        ("--enforce-eager M", {"enforce_eager": True}),
    ],
)
def test_values(text: str, values: dict[str, Any]) -> None:
    read = _arguments(text)
    assert {dest: option.value for dest, option in read.options.items()} == values
    assert read.problems == ()
    assert read.model is not None
    assert read.model.text == "M"


@pytest.mark.parametrize(
    ("text", "code"),
    [("M stray", "CMD006"), ("M --max-model-len", "CMD007"), ("M --max-model-len --enforce-eager", "CMD007"), ("M --seed 1 --seed 2", "CMD008"), ("M --seed $X", "CMD005"), ("M $X", "CMD005"), ("M --max-model-len 1.5M", "CMD007")],
)
def test_problems(text: str, code: str) -> None:
    (problem,) = _arguments(text).problems
    assert problem.code == code
    assert problem.position is not None
    assert problem.position.line == 1


@pytest.mark.parametrize("text", ["M \u2013max-model-len 10", "M -\u2013max-model-len 10", "M \u2014max-model-len 10", "\u2013max-model-len 10 M"])
def test_a_dash_that_is_no_hyphen(text: str) -> None:
    read = _arguments(text)
    assert [(p.code, p.fix) for p in read.problems] == [("CMD006", "Type it anew: `--max-model-len`.")]
    assert read.model is not None
    assert read.model.text == "M"


def test_a_switch_with_a_dash_that_is_no_hyphen_takes_no_word() -> None:
    read = _arguments("\u2013enforce-eager M")
    assert (read.model and read.model.text, len(read.problems)) == ("M", 1)


def test_a_file_that_is_no_command_gives_no_endless_list() -> None:
    problems = _arguments("M " + "stray " * 5000).problems
    assert len(problems) == 101
    assert "not listed" in problems[-1].what


def test_the_last_of_two_counts() -> None:
    assert _values("M --seed 1 --seed 2") == {"seed": 2}


def test_the_model_may_be_an_option() -> None:
    read = _arguments("--model ORG/M --seed 1")
    assert read.model is not None
    assert (read.model.text, list(read.options)) == ("ORG/M", ["seed"])
    assert _arguments("--seed 1").model is None


@pytest.mark.parametrize("profile", sorted(file.stem for file in (SPECS / "profiles").glob("*.yaml")))
def test_every_shipped_command_is_read_back_as_it_was_meant(profile: str) -> None:
    from tests.support import subject

    own = subject(profile)
    source = Source("x", shlex.join(own.plan.engine.argv))
    (launch,) = launches_in(source, source.whole())[0]
    read = arguments(launch, own.specs.flags)
    again = {dest: list(words(dest, option.value, own.specs.flags.find(dest))) for dest, option in read.options.items()}
    assert again == {s.name: list(s.flags) for s in own.plan.engine.settings if s.flags}
    assert read.problems == ()


@given(st.lists(st.sampled_from(["--seed", "1", "-tp", "--hf-overrides", "{", "--no-enable-prefix-caching", "-O", "-O3", "--x.y", "=", "--", "-", "a.b", "--served-model-name", "--compilation-config.a.b", "--seed.x"]), max_size=8))
def test_any_arguments_are_read(given_words: list[str]) -> None:
    read = _arguments(" ".join(f"'{word}'" for word in given_words))
    assert len(read.options) + len(read.problems) <= len(given_words), "each word is told of once at most"
