"""A flag snapshot becomes a table in which each spelling finds its option."""

from __future__ import annotations

import json

import pytest

from compiler.load import SpecStore
from compiler.load.flags import flag_table
from compiler.schema.flags import FlagTable
from tests.support import SPECS

SNAPSHOT = {
    "format": 1, "release": "1.2.3", "configs": {"Cfg": {"fields": {"a": {"type": "int"}, "b": {"type": "str"}}}},
    "registries": {"names": ["x", "y"], "quantization_min_capability": {"fp8": 89}},
    "flags": {
        "help": {"dest": "help", "kind": "help", "options": ["-h"]},
        "model_len": {"dest": "model_len", "kind": "store", "options": ["-l", "--model-len"], "type": "human_int", "default": None, "help": "Window."},
        "eager": {"dest": "eager", "kind": "boolean", "options": ["--eager", "--no-eager"], "negative": ["--no-eager"], "default": False},
        "names": {"dest": "names", "kind": "store", "options": ["--names"], "type": "str", "nargs": "+"},
        "config": {"dest": "config", "kind": "store", "options": ["--config"], "type": "config", "config": "Cfg"},
        "more": {"dest": "more", "kind": "append", "options": ["--more"], "type": "str", "choices": ["p", 2]},
    },
}  # fmt: skip


def table() -> FlagTable:
    return flag_table("flags.json", json.dumps(SNAPSHOT))


def test_kinds_and_spellings() -> None:
    flags = table()
    assert {dest: f.kind for dest, f in flags.flags.items()} == {"model_len": "value", "eager": "switch-pair", "names": "list", "config": "json", "more": "append"}
    assert flags.flags["model_len"].options == ("--model-len", "-l")
    assert (flags.flags["eager"].options, flags.flags["eager"].negative) == (("--eager",), "--no-eager")
    assert (flags.flags["config"].keys, flags.flags["more"].choices) == (("a", "b"), ("p", "2"))
    assert (flags.registries, flags.min_capability) == ({"names": ("x", "y")}, {"fp8": 89})


@pytest.mark.parametrize("name", ["model_len", "model-len", "--model-len", "--model_len"])
def test_find(name: str) -> None:
    found = table().find(name)
    assert found is not None
    assert found.dest == "model_len"


@pytest.mark.parametrize("name", ["", "-", "nothing", "help", "é", "x" * 10_000])
def test_find_nothing(name: str) -> None:
    assert table().find(name) is None


def test_nearest_and_registries() -> None:
    flags = table()
    assert flags.nearest("--model-lenn") == "model_len"
    assert flags.nearest("zzzzzz") is None
    assert (flags.knows("names", "x"), flags.knows("names", "z"), flags.knows("unrecorded", "z")) == (True, False, True)


@pytest.mark.parametrize("text", ["", "[]", "5", '{"format": 2}', '{"format": 1}', json.dumps(SNAPSHOT | {"flags": {"a": {}}}), json.dumps(SNAPSHOT | {"registries": 5})])
def test_what_is_no_snapshot_raises(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        flag_table("flags.json", text)


def test_shipped_snapshots_agree_with_their_engines() -> None:
    store = SpecStore([SPECS])
    for name in store.names("engine"):
        spec = store.spec("engine", name)[0]
        text = (SPECS / "engines" / spec.flags).read_text("utf-8")
        flags = flag_table(spec.flags, text)
        assert len(flags.flags) > 100
        assert all(flags.find(option) is flag for flag in flags.flags.values() for option in flag.options if option.startswith("--"))
