"""New specs are valid at once, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.lint.rule import Subject
from compiler.lint.rules.eng.eng020_snapshot_of_another_release import check as snapshot_of_another_release
from compiler.load import SpecStore, load_specset
from compiler.load.store import is_name
from compiler.resolve import resolve_plan
from compiler.scaffold import KINDS, NAME, STARTING_PROFILE, new_spec, starting_files
from tests.support import SPECS

NAMES = ("mine", "on", "no", "null", "123", "1e6", "010", "1.5", "a.b-c_d", "true", "0x1f", "y", "x" * 63)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_new_spec_is_valid(tmp_path: Path, kind: str, name: str) -> None:
    path, text = new_spec(kind, name)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text, encoding="utf-8")
    store = SpecStore([tmp_path, SPECS])
    found = load_specset(store, name)[1] if kind == "profile" else store.spec(kind, name)[1]
    assert [d.what for d in found] == []


def test_parent_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    for name, parent in (("123", STARTING_PROFILE), ("child", "123")):
        (tmp_path / new_spec("profile", name, parent)[0]).write_text(new_spec("profile", name, parent)[1], encoding="utf-8")
    specs, problems = load_specset(SpecStore([tmp_path, SPECS]), "child")
    assert problems == []
    assert specs is not None
    assert specs.profile.summary == "My variation of 123."


def test_names_are_those_that_loading_takes() -> None:
    for name in (*NAMES, "", "A", "a\n", "../x", "-a", "x" * 64, "é"):
        assert bool(NAME.fullmatch(name)) is is_name(name)


def test_starting_folder_holds_a_profile_and_the_schemas() -> None:
    files = starting_files()
    assert "profiles/my-first.yaml" in files
    assert "schemas/profile.schema.json" in files
    assert files["profiles/my-first.yaml"].startswith("# yaml-language-server: $schema=../schemas/profile.schema.json\n")


def test_new_engine_serves_a_profile_with_a_shipped_snapshot_and_another_release_is_told_of(tmp_path: Path) -> None:
    path, text = new_spec("engine", "mine")
    assert "snapshot_flags.py" in text
    profile = new_spec("profile", "fast")[1] + "engine: mine\ncontainer: {recipe: vllm-openai, prebaked: false}\n"
    for release, told in (("0.27.1", False), ("0.28.0", True)):
        for name, content in ((path, text.replace('release: "0.27.1"', f'release: "{release}"')), ("profiles/fast.yaml", profile)):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        specs, problems = load_specset(SpecStore([tmp_path, SPECS]), "fast")
        assert problems == []
        assert specs is not None
        plan = resolve_plan(specs)
        assert (plan.engine.release, specs.flags.release) == (release, "0.27.1")
        assert bool(list(snapshot_of_another_release(Subject(specs, plan, {})))) is told
