"""A plan comes back from JSON as it was, and JSON of another shape is refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.load import SpecStore
from compiler.plan import Plan, from_json, to_json
from compiler.plan.core import EnvVar, Package, Setting
from compiler.plan.memory import MemoryWarning
from compiler.resolve import resolve_plan
from tests.support import SPECS, specset

PROFILES = SpecStore([SPECS]).names("profile")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.floats(allow_nan=False, allow_infinity=False), st.text())
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4).map(tuple), st.dictionaries(st.text(), inner, max_size=4)), max_leaves=12)


@pytest.mark.parametrize("name", PROFILES)
def test_round_trip_of_every_shipped_profile(name: str) -> None:
    plan = resolve_plan(specset(name))
    data = to_json(plan)
    text = json.dumps(data, allow_nan=False)
    assert from_json(Plan, json.loads(text)) == plan
    assert to_json(from_json(Plan, json.loads(text))) == data


@given(st.text(), VALUES, st.lists(st.text()).map(tuple))
def test_property_any_setting_survives(name: str, value: object, flags: tuple[str, ...]) -> None:
    value = value if isinstance(value, (dict, tuple, str, int, float, bool, type(None))) else None
    setting = Setting(name, value, flags)  # type: ignore[arg-type]
    assert from_json(Setting, json.loads(json.dumps(to_json(setting)))) == setting


def test_mappings_are_sorted_and_whole_floats_are_integers() -> None:
    text = json.dumps(to_json(Setting("x", {"b": 12.0, "a": 0.5}, ())))
    assert text == '{"name": "x", "value": {"a": 0.5, "b": 12}, "flags": []}'


def test_enumerations_become_their_value() -> None:
    assert to_json([MemoryWarning.WIDE_OVERHEAD]) == ["wide-overhead"]


@pytest.mark.parametrize("data", [{}, {"name": "x"}, {"name": "x", "value": "y", "why": "z", "more": 1}])
def test_other_fields_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(KeyError):
        from_json(EnvVar, data)


@pytest.mark.parametrize("data", [None, 5])
def test_other_shapes_are_refused(data: object) -> None:
    with pytest.raises(TypeError):
        from_json(Package, data)


@pytest.mark.parametrize("name", PROFILES)
def test_plans_hold_no_number_that_json_lacks(name: str) -> None:
    def numbers(value: object) -> list[float]:
        if isinstance(value, dict):
            return [n for item in value.values() for n in numbers(item)]
        if isinstance(value, list):
            return [n for item in value for n in numbers(item)]
        return [value] if isinstance(value, float) else []

    assert all(math.isfinite(n) for n in numbers(to_json(resolve_plan(specset(name)))))
