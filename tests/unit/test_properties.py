"""Whatever a spec file holds, compiling it ends with findings or a bundle, and what does not matter changes nothing."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import random
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.artifact import Bundle
from compiler.command_support import command_lines
from compiler.diagnostics import formatted, located
from compiler.load import SpecStore, image_files, load_specset
from compiler.pipeline import Compiled, compiled
from compiler.plan import Plan, from_json, to_json
from compiler.render.start_command import decoded, stored_form
from compiler.resolve.settings import words
from compiler.schema.flags import Flag
from compiler.schema.specset import SpecSet
from tests.support import ROOT, SPECS
from tests.unit import maximal

FILES = image_files(ROOT)
CHILD = "kind: profile\nsummary: A test.\nextends: nemotron-ada\n"
PROFILES = SpecStore([SPECS]).names("profile")
NAMES = {kind: Path(path).relative_to("specs") for kind, path in maximal.PATHS.items()} | {"lock": Path("locks/nemotron-ada.yaml"), "evidence": Path("evidence/nemotron-ada.yaml")}
NASTY = (
    "\t", "\r", "\x00", "\x85", "\u2028", "\ufeff", "&a ", "*a", "<<: ", "!!x ", "{", "}", "[", "]", "- ", "? ", ": ", "#", "|", ">", "'", '"', "\\", "%", "@", "`", "~", "no", "1e6",
    "010", ".inf", "null", "---\n", "...\n", "{{ 7*7 }}", "$(id)", "\U0001f600", "\u202e", "[" * 80, "9" * 40, "-1", "0", "x" * 2000, "extends: nemotron-ada\n", "value: ", "\n\n", "  ",
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.sampled_from([0, 1, -1, 2, 10**17, 2**31, 2**63 - 1]), st.floats(-1e18, 1e18), st.text(max_size=20),
    st.sampled_from(["", "auto", "off", "0", "1", "-1", "80GiB", "1M", "9" * 30, "owner/name", "x" * 5000, "fp8", "turboquant_k8v4", "mtp", "--x", "a\nb", "vllm-venv", "vllm-openai", "vllm-cpu", "nemotron-a100"]),
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=8), inner, max_size=3)), max_leaves=6)


def few(divisor: int) -> settings:
    """A share of the examples, for tests of which one example compiles a whole profile."""
    return settings(max_examples=max(5, settings().max_examples // divisor))


def finished(specs: SpecSet | None, problems: list[Any], store: SpecStore) -> Compiled | None:
    """Compile, print all findings, and hold what always holds."""
    result = compiled(specs, FILES) if specs is not None else None
    found = located([*problems, *(result.diagnostics if result else ())], store)
    json.dumps([d.to_json() for d in found], allow_nan=False)
    assert all(line.isprintable() for d in found for line in formatted(d).splitlines())
    assert all(d.what and d.why and d.fix for d in found)
    if result is None or result.bundle is None:
        assert any(d.is_error for d in found), "refused without an error"
        return result
    assert from_json(Plan, json.loads(json.dumps(to_json(result.plan), allow_nan=False))) == result.plan
    return result


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def compile_file(kind: str, content: bytes) -> None:
    """Compile nemotron-ada with one of its files replaced."""
    with folder() as root:
        file = root / NAMES[kind]
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        store = SpecStore([root, SPECS])
        finished(*load_specset(store, "nemotron-ada"), store)


@functools.cache
def shipped_text(kind: str) -> str:
    file = SPECS / NAMES[kind]
    return file.read_text("utf-8") if file.exists() else 'kind: lock\nresolved: "2026-08-01"\nrepos:\n  owner/name: {revision: 0123456789abcdef0123456789abcdef01234567, size: 1GB}\n'


@pytest.mark.parametrize("kind", NAMES)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda t: t.encode("utf-8", "surrogatepass"))))
@example(b"")
@example(b"\xff\xfe")
@few(4)
def test_property_any_bytes_as_a_spec(kind: str, content: bytes) -> None:
    compile_file(kind, content)


@pytest.mark.parametrize("kind", NAMES)
@few(2)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(NASTY), min_size=1, max_size=4))
def test_property_shipped_text_with_edits(kind: str, chance: random.Random, insertions: list[str]) -> None:
    text = shipped_text(kind)
    for insertion in insertions:
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 0, 1, 3, 40)))
        text = text[:start] + insertion + text[end:]
    compile_file(kind, text.encode())


def mutated(data: Any, chance: random.Random, value: object) -> Any:
    """`data` with one change: a key or item dropped, doubled, renamed, moved, or another value in its place."""
    routes = [route for route in every_route(data) if route]
    route = chance.choice(routes)
    action = chance.choice(("drop", "retype", "retype", "rename", "double", "swap", "vary", "vary", "vary", "vary"))
    other = chance.choice(routes)
    if action == "vary":
        route = chance.choice([r for r in routes if isinstance(at(data, r), (int, float))] or routes)
        return maximal.replaced(data, route, varied(at(data, route), chance))
    if action == "swap" and route[: len(other)] != other and other[: len(route)] != route:
        return maximal.replaced(maximal.replaced(data, route, at(data, other)), other, at(data, route))
    if action == "rename" and isinstance(route[-1], str):
        return maximal.replaced(data, route, chance.choice((f"{route[-1]}x", str(value)[:50], "value", "")), key=True)
    if action in ("drop", "double"):
        return maximal.replaced(data, route[:-1], without(at(data, route[:-1]), route[-1]) if action == "drop" else doubled(at(data, route[:-1]), route[-1]))
    return maximal.replaced(data, route, value)


def varied(value: Any, chance: random.Random) -> Any:
    """Another value of the same type: what loading takes and only the plan or a rule can refuse."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice((1, 2, 3, 5, 7, value + 1, value * 2, max(1, value // 2), value * 1000, 2**31, 10**12, 10**17))
    return chance.choice((1e-9, 0.01, 0.5, 1.0, 1.5, value * 2, 1e6)) if isinstance(value, float) else value


def every_route(value: Any, route: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield route
    if isinstance(value, (dict, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from every_route(item, (*route, key))


def at(value: Any, route: tuple[str | int, ...]) -> Any:
    for part in route:
        value = value[part]
    return value


def without(value: Any, key: str | int) -> Any:
    return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else tuple(v for i, v in enumerate(value) if i != key)


def doubled(value: Any, key: str | int) -> Any:
    return {**value, f"{key}_2": value[key]} if isinstance(value, dict) else (*value, value[key])  # type: ignore[index]


@functools.cache
def shipped_data(name: str) -> dict[str, Any]:
    """The data of all specs behind a profile by logical path, its parents and swap members among them."""
    store = SpecStore([SPECS])
    assert load_specset(store, name)[0] is not None
    return {path: store.document(path)[0].data for path in store.read_paths() if path.startswith(("specs/profiles/", "specs/models/", "specs/hardware/", "specs/engines/vllm"))}


@pytest.mark.parametrize("name", ["maximal", "nemotron-ada", "ornith-2xa40", "qwen38-blackwell", "flashnext-blackwell", "kimi-linear-a40", "tiny-cpu", "swift-2x4090"])
@few(2)
@given(st.randoms(use_true_random=False), st.lists(VALUES, min_size=1, max_size=3))
def test_property_mutated_specs_end_in_findings_or_a_bundle(name: str, chance: random.Random, values: list[object]) -> None:
    data = dict(maximal.maximal() if name == "maximal" else shipped_data(name))
    for value in values:
        path = chance.choice(sorted(data))
        data[path] = mutated(data[path], chance, value)
        if not isinstance(data[path], dict) or not data[path]:
            return
    store = maximal.DataStore(data)
    finished(*load_specset(store, maximal.NAME if name == "maximal" else name), store)


def shuffled(value: Any, chance: random.Random) -> Any:
    """`value` with the keys of all mappings in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return tuple(shuffled(item, chance) for item in value) if isinstance(value, tuple) else value


@functools.cache
def bundle_of(name: str) -> Bundle:
    specs, _ = load_specset(SpecStore([SPECS]), name)
    assert specs is not None
    bundle = compiled(specs, FILES).bundle
    assert bundle is not None
    return bundle


@pytest.mark.parametrize("name", PROFILES)
@few(8)
@given(st.randoms(use_true_random=False))
def test_property_order_of_keys_does_not_matter(name: str, chance: random.Random) -> None:
    """The files' own sha256 (plan.json `inputs`, bundle.lock) are those of the unchanged files here, so every byte must agree."""
    data = {path: shuffled(value, chance) for path, value in shipped_data(name).items()}
    specs, problems = load_specset(maximal.DataStore(data), name)
    assert specs is not None, [formatted(d) for d in problems]
    assert compiled(specs, FILES).bundle == bundle_of(name)


WORDS = st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), max_size=6)


@given(WORDS, WORDS)
def test_property_stored_start_command_survives_any_text(command: list[str], entrypoint: list[str]) -> None:
    stored = stored_form(command, entrypoint)
    assert stored.isascii()
    assert decoded(stored) == (tuple(command), tuple(entrypoint))


@given(WORDS)
def test_property_argv_survives_the_shell(argv: list[str]) -> None:
    assert shlex.split(shlex.join(argv)) == argv
    assert shlex.split(" ".join(command_lines(argv))) == argv


@given(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.integers()))))
@example("--other", 0, 0.0, {})
@example("-1", -5, -0.5, {"--other": "-x"})
def test_property_settings_survive_the_parser(text: str, whole: int, number: float, mapping: dict[str, object]) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    kinds: dict[str, tuple[object, Any]] = {"text": (text, str), "whole": (whole, int), "number": (number, float), "mapping": (mapping, json.loads)}
    argv: list[str] = []
    for name, (value, kind) in kinds.items():
        parser.add_argument(f"--{name}", type=kind)
        flag = Flag(name, (f"--{name}",), None, "json" if name == "mapping" else "value", "str", (), None, None, "", ())
        argv += words(name, value, flag)
    parser.add_argument("--other")
    parsed = parser.parse_args(argv)
    assert {name: getattr(parsed, name) for name in kinds} == {name: value for name, (value, _) in kinds.items()}
    assert parsed.other is None


def test_a_test_profile_that_extends_is_a_profile() -> None:
    with folder() as root:
        (root / "profiles").mkdir()
        (root / "profiles" / "mine.yaml").write_text(CHILD)
        store = SpecStore([root, SPECS])
        assert finished(*load_specset(store, "mine"), store) is not None
