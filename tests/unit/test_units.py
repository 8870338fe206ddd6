"""Quantities are read exactly, once, and anything else is a ValueError that names what was written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import units

READERS = (units.size_bytes, units.token_count, units.duration_seconds)


@pytest.mark.parametrize(("text", "expected"), [
    ("80GiB", 80 << 30), ("26.1GB", 26_100_000_000), ("512MiB", 512 << 20), ("1kB", 1000), ("1KiB", 1024), ("0.5TB", 500_000_000_000), ("80 GiB", 80 << 30),
    ("12B", 12), ("12", 12), (12, 12), (9_007_199_254_740_993, 9_007_199_254_740_993), ("9007199254740993", 9_007_199_254_740_993), (1.0, 1),
])  # fmt: skip
def test_size(text: str | int, expected: int) -> None:
    assert units.size_bytes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("1M", 1_000_000), ("1Mi", 1 << 20), ("256Ki", 262_144), ("64k", 64_000), ("0.5Ki", 512), (131_072, 131_072)])
def test_tokens(text: str | int, expected: int) -> None:
    assert units.token_count(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("30s", 30.0), ("2min", 120.0), ("2m", 120.0), ("1.5h", 5400.0), ("250ms", 0.25), ("1d", 86_400.0), (7, 7.0), (0.5, 0.5)])
def test_duration(text: str | float, expected: float) -> None:
    assert units.duration_seconds(text) == expected


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("value", [
    None, (), {}, [1], True, False, "", " ", "GiB", "1e6", "0x10", "1_000", "-5GiB", "+5", "5 5", "1,5GB", "5 GiB x", "٣", "٣GiB", "5\n", "5GiB\n", "NaN", "inf",
    math.nan, math.inf, -math.inf, 10**30, "9" * 400, "9" * 400 + "h", "1" + "0" * 30 + "TiB", b"5",
])  # fmt: skip
def test_anything_else_is_a_value_error(reader: object, value: object) -> None:
    with pytest.raises(ValueError):
        reader(value)  # type: ignore[operator]


@pytest.mark.parametrize(("reader", "value"), [(units.size_bytes, "5Gi"), (units.size_bytes, "5s"), (units.token_count, "5GB"), (units.token_count, "1.0001Ki"), (units.duration_seconds, "5GB"), (units.size_bytes, 1.5)])
def test_wrong_unit_is_a_value_error(reader: object, value: object) -> None:
    with pytest.raises(ValueError):
        reader(value)  # type: ignore[operator]


@pytest.mark.parametrize("value", [-1, "-1", " -1 ", -1.0, "-256Ki"])
def test_negative_tokens_are_told_of_auto(value: object) -> None:
    with pytest.raises(ValueError, match=r"greater than 0.*`auto`"):
        units.token_count(value)  # type: ignore[arg-type]


def test_message_cuts_long_text() -> None:
    with pytest.raises(ValueError) as error:
        units.size_bytes("x" * 100_000)
    assert len(str(error.value)) < 200


@given(st.integers(0, units.LARGEST))
def test_property_whole_numbers_stay_exact(number: int) -> None:
    assert units.size_bytes(number) == units.size_bytes(str(number)) == units.token_count(f" {number} ") == number


@given(st.integers(0, 10**6), st.sampled_from(["Ki", "Mi", "k", "M", "G"]))
def test_property_prefixes_multiply(number: int, prefix: str) -> None:
    factor = units.token_count(f"1{prefix}")
    assert units.token_count(f"{number}{prefix}") == units.size_bytes(f"{number}{prefix}B") == number * factor


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary(), st.lists(st.integers())))
def test_property_any_value_gives_a_bounded_number_or_a_value_error(value: object) -> None:
    for reader in READERS:
        try:
            number = reader(value)  # type: ignore[operator]
        except ValueError:
            continue
        assert abs(number) <= units.LARGEST


def test_gib_and_grouped() -> None:
    assert units.gib(3 << 29) == 1.5
    assert units.grouped(1_048_576) == "1,048,576"
