"""Every command line that podwright emits is taken by the real parser of the release that the profile pins."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.integration.parts import Built, built_bundles, engine_absent, engine_parts, parser_answers

BUNDLES = built_bundles()
# Command lines that the parser must refuse, so that a check which takes everything is noticed.
WRONG = {
    "a flag that is gone": ["m", "--swap-space", "4"],
    "an abbreviation": ["m", "--max-num-seq", "4"],
    "the same setting twice": ["m", "-tp", "2", "--tensor-parallel-size", "2"],
    "a parser that nobody registered": ["m", "--enable-auto-tool-choice", "--tool-call-parser", "no_such_parser"],
    "a cache type that does not exist": ["m", "--kv-cache-dtype", "turboquant_k4v4"],
    "a key that speculation does not have": ["m", "--speculative-config", '{"method": "mtp", "num_speculative_token": 3}'],
    "a key that compilation does not have": ["m", "--compilation-config", '{"no_such_key": 1}'],
    "decimals with a binary suffix": ["m", "--kv-cache-memory-bytes", "14.5G"],
}
RIGHT = {
    "speculation": ["m", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}'],
    "underscores": ["m", "--max_num_seqs", "4"],
    "decimals with a decimal suffix": ["m", "--kv-cache-memory-bytes", "14.5g"],
}


@functools.cache
def answers(release: str) -> dict[str, dict[str, Any]]:
    """All questions to one release's parser, asked at once: building it takes longer than thousands of answers."""
    parts = engine_parts(release)
    if parts is None:
        pytest.skip(engine_absent(release))
    emitted = {f"built {bundle.name}": bundle.flags for bundle in BUNDLES if bundle.release == release}
    return parser_answers(parts, {**emitted, **WRONG, **RIGHT})


@pytest.mark.real_engine
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_the_real_parser_takes_the_emitted_command_line(bundle: Built) -> None:
    answer = answers(bundle.release)[f"built {bundle.name}"]
    assert answer["ok"], answer["error"]


@pytest.mark.real_engine
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_command_line_is_refused(name: str) -> None:
    assert not answers("0.27.1")[name]["ok"]


@pytest.mark.real_engine
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_command_line_is_taken(name: str) -> None:
    answer = answers("0.27.1")[name]
    assert answer["ok"], answer["error"]


@pytest.mark.real_engine
def test_there_are_bundles_to_check() -> None:
    if not BUNDLES:
        pytest.skip("SKIPPED: build/ holds no bundle; run make build-all first")
    assert BUNDLES
