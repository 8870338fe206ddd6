"""Layers of specs become settings with their origin, and settings become words that the release's parser reads."""

from __future__ import annotations

import pytest

from compiler.resolve.ledger import Ledger
from compiler.resolve.settings import Settings, layered_settings, rendered_settings, words
from compiler.schema.flags import Flag, FlagKind
from tests.support import specset


def flag(kind: FlagKind, negative: str | None = None) -> Flag:
    return Flag("the_name", ("--the-name", "-n"), negative, kind, "str", (), None, None, "", ())


@pytest.mark.parametrize(("value", "of", "expected"), [
    (5, flag("value"), ["--the-name", "5"]),
    (0.9, flag("value"), ["--the-name", "0.9"]),
    (1.0, flag("value"), ["--the-name", "1.0"]),
    ("fp8", flag("value"), ["--the-name", "fp8"]),
    ("--other", flag("value"), ["--the-name=--other"]),
    (-1, flag("value"), ["--the-name=-1"]),
    ("", flag("value"), ["--the-name", ""]),
    (None, flag("value"), []),
    (True, flag("switch"), ["--the-name"]),
    (False, flag("switch"), []),
    (False, flag("switch-pair", "--no-the-name"), ["--no-the-name"]),
    (True, flag("switch-pair", "--no-the-name"), ["--the-name"]),
    ({"b": [1, "é"], "a": None}, flag("json"), ["--the-name", '{"a":null,"b":[1,"é"]}']),
    (("x", 2), flag("json"), ["--the-name", '["x",2]']),
    (("x", 2), flag("list"), ["--the-name", "x", "2"]),
    (["x", {"k": 1}], flag("append"), ["--the-name", "x", "--the-name", '{"k":1}']),
    ("x", None, ["--the-name", "x"]),
    (("x", "y"), None, ["--the-name", "x", "y"]),
])  # fmt: skip
def test_words(value: object, of: Flag | None, expected: list[str]) -> None:
    assert list(words("the_name", value, of)) == expected


def test_later_layers_win_and_say_where_they_stand() -> None:
    specs = specset("nemotron-ada", {
        "model": {"engine.max_num_seqs": {"value": 1, "reason": "Model."}, "engine.block_size": 16, "engine_args.uvicorn-log-level": "info"},
        "hardware": {"engine.max_num_seqs": {"value": 2, "reason": "Hardware."}},
        "profile": {"settings.max_num_seqs": {"value": 3, "reason": "Profile."}, "engine_args.uvicorn_log_level": "warning"},
    })  # fmt: skip
    ledger = Ledger(specs)
    settings = layered_settings(specs, ledger)
    assert (settings.get("max_num_seqs"), settings.get("block_size"), settings.get("uvicorn_log_level"), settings.get("nothing", 7)) == (3, 16, "warning", 7)
    decisions = {d.route: d for d in ledger.decisions}
    assert (decisions["engine.max_num_seqs"].origin, decisions["engine.max_num_seqs"].reason) == ("profile", "Profile.")
    assert decisions["engine.block_size"].origin == "model"
    assert decisions["engine.block_size"].where == "specs/models/nemotron-nvfp4.yaml#engine.block_size"


def test_defaults_and_computed_values_yield_to_chosen_ones() -> None:
    specs = specset("nemotron-ada")
    settings = Settings(specs, Ledger(specs))
    settings.default("a", 1, "First.")
    settings.default("a", 2, "Second.")
    settings.compute("a", 3, "Third.")
    settings.compute("b", 4, "Fourth.")
    settings.replace("b", 5, "Fifth.")
    assert settings.values == {"a": 1, "b": 5}
    assert [(d.route, d.value, d.origin) for d in settings.ledger.decisions] == [("engine.a", "1", "default"), ("engine.b", "5", "computed")]


@pytest.mark.parametrize(("value", "whole", "word", "mapping"), [(5, 5, None, {}), ("x", None, "x", {}), ({"a": 1}, None, None, {"a": 1}), (True, None, None, {}), (0, None, None, {}), (-3, None, None, {}), (2.5, None, None, {}), ((1,), None, None, {})])
def test_typed_reading_of_untyped_values(value: object, whole: int | None, word: str | None, mapping: dict[str, int]) -> None:
    specs = specset("nemotron-ada")
    settings = Settings(specs, Ledger(specs))
    settings.values["x"] = value
    assert (settings.whole("x", None), settings.word("x"), settings.mapping("x")) == (whole, word, mapping)


def test_order_is_names_host_port_then_alphabetical() -> None:
    specs = specset("nemotron-ada")
    rendered = rendered_settings({"zeta": 1, "port": 2, "alpha": [[1], {"k": [2]}], "served_model_name": ["a"], "host": "h"}, specs.flags)
    assert [s.name for s in rendered] == ["served_model_name", "host", "port", "alpha", "zeta"]
    assert rendered[3].value == ((1,), {"k": (2,)})


def test_a_positional_of_the_parser_has_no_option_and_does_not_break_the_plan() -> None:
    """A rule refuses it (ENG010); until then its words are spelled by its name."""
    specs = specset("nemotron-ada", {"profile": {"engine_args.model_tag": "x/y"}})
    flag = specs.flags.find("model_tag")
    assert flag is not None and not flag.options
    assert list(words("model_tag", "x/y", flag)) == ["--model-tag", "x/y"]
