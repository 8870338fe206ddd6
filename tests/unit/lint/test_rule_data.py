"""Tables that rules read: each row is proved by a shipped snapshot or spec."""

from __future__ import annotations

import re

import pytest

from compiler.lint.removed_options import REMOVED
from compiler.lint.runpod_names import DATA_CENTERS, GPU_IDS
from compiler.load.flags import flag_table
from tests.support import SPECS, subject

TABLES = {f.stem: flag_table(f.name, f.read_text("utf-8")) for f in sorted((SPECS / "engines" / "flags").glob("*.json"))}
# Keys of podwright's own that a fix may name, beside the engine's options.
OWN_KEYS = {"speculation", "yarn_factor"}


def test_there_are_snapshots() -> None:
    assert len(TABLES) >= 2


@pytest.mark.parametrize("option", sorted(REMOVED))
def test_a_snapshot_proves_that_the_option_is_gone(option: str) -> None:
    assert any(table.find(option) is None for table in TABLES.values())


@pytest.mark.parametrize("option", sorted(REMOVED))
def test_what_replaces_it_exists_where_it_is_gone(option: str) -> None:
    for table in TABLES.values():
        if table.find(option) is None:
            for quoted in re.findall(r"`(\w+)", REMOVED[option]):
                assert quoted in OWN_KEYS or table.find(quoted) is not None, f"{table.release} has no {quoted}"


def test_nearest_option_is_one_of_the_release() -> None:
    for table in TABLES.values():
        assert table.nearest("max_num_batch_tokens") == "max_num_batched_tokens"


def test_shipped_profiles_use_known_gpus_and_data_centers() -> None:
    plans = [subject(f.stem).plan for f in sorted((SPECS / "profiles").glob("*.yaml"))]
    assert {gpu for plan in plans for gpu in plan.hardware.runpod_ids} <= GPU_IDS
    assert {center for plan in plans for center in plan.deploy.data_centers} <= DATA_CENTERS
