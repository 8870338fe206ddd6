"""The shipped specs: each one is valid, says where it belongs, and refers only to what exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.schema import FOLDERS, KINDS

SPECS = Path(__file__).resolve().parents[3] / "specs"
EDITED = ("model", "hardware", "engine", "profile")
PROFILES = {
    "flashnext-blackwell", "kimi-linear-a40", "nemotron-a100", "nemotron-ada", "nemotron-blackwell", "ornith-2xa40", "ornith-2xa40-dspark",
    "ornith-2xa40-turboquant", "ornith-ada", "ornith-fp8-2xa40", "ornith-qwen38-swap", "qwen3-coder-a40", "qwen3-coder-reap-a40", "qwen36-2x4090",
    "qwen38-2xa40", "qwen38-blackwell", "swift-2x4090", "tiny-cpu",
}  # fmt: skip
HYBRID_STATES = {"gdn", "mamba2", "kda"}


def files(kind: str) -> list[Path]:
    return sorted((SPECS / FOLDERS[kind]).glob("*.yaml"))


ALL = [pytest.param(kind, path, id=f"{kind}-{path.stem}") for kind in EDITED for path in files(kind)]


def read(path: Path) -> dict[str, Any]:
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    assert isinstance(data, dict), path
    return {key: frozen(value) for key, value in data.items()}


def frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    return {key: frozen(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def profile(name: str) -> dict[str, Any]:
    """A profile with what it extends: its own keys win, and mappings are merged one level deep."""
    own = read(SPECS / "profiles" / f"{name}.yaml")
    parent = own.pop("extends", None)
    if parent is None:
        return own
    merged = profile(parent)
    for key, value in own.items():
        before = merged.get(key)
        joined = key in ("settings", "engine_args", "env", "container", "bridge", "watchdog", "deploy", "client") and isinstance(before, dict)
        merged[key] = {**before, **value} if joined else value
    return merged


def evidence_ids() -> set[str]:
    found = set()
    for path in files("evidence"):
        data = read(path)
        found |= {f"{data['topic']}/{record['id']}" for record in data["records"]}
    return found


def citations(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "evidence":
                yield from (inner,) if isinstance(inner, str) else inner
            else:
                yield from citations(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from citations(inner)


def sentences(value: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Texts under `keys`, however deep; of a list of texts, each one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in keys and isinstance(inner, (str, tuple)):
                yield from (inner,) if isinstance(inner, str) else (text for text in inner if isinstance(text, str))
            else:
                yield from sentences(inner, keys)
    elif isinstance(value, tuple):
        for inner in value:
            yield from sentences(inner, keys)


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_spec_is_valid(kind: str, path: Path) -> None:
    data = profile(path.stem) if kind == "profile" else read(path)
    assert KINDS[kind].model_validate(data).model_dump(exclude_unset=True).keys() == data.keys()


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_first_line_names_the_schema(kind: str, path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../schemas/{kind}.schema.json"


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_text_is_plain(kind: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.isascii() and text.endswith("\n") and "\t" not in text
    assert not re.search(r"(?<![\w\"'])(yes|no|on|off|Yes|No|On|Off)\s*$", re.sub(r'"[^"]*"', "", text), re.MULTILINE), "a bare word that YAML 1.1 reads as a truth value"


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_sentences_end(kind: str, path: Path) -> None:
    for text in sentences(read(path), ("summary", "reason", "note", "notes", "source", "why", "purpose")):
        assert text.rstrip().endswith("."), text


@pytest.mark.parametrize(("kind", "path"), ALL)
def test_evidence_exists(kind: str, path: Path) -> None:
    missing = set(citations(read(path))) - evidence_ids()
    assert not missing


def test_profiles_are_complete() -> None:
    assert {path.stem for path in files("profile")} == PROFILES


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_references_exist(name: str) -> None:
    data = profile(name)
    for kind in ("model", "hardware", "engine"):
        assert (SPECS / FOLDERS[kind] / f"{data[kind]}.yaml").is_file(), data[kind]
    for member in data.get("swap", {}).get("members", ()):
        assert profile(member)["hardware"] == data["hardware"], member


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_recipe_and_extras_belong_to_the_release(name: str) -> None:
    data = profile(name)
    engine = read(SPECS / "engines" / f"{data['engine']}.yaml")
    assert data["container"]["recipe"] in {image["recipe"] for image in engine["images"]}
    assert set(data["container"].get("extras", ())) <= set(engine.get("extras", {}))


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_choices_carry_reasons(name: str) -> None:
    data = profile(name)
    for key, choice in {**data.get("settings", {}), **data.get("engine_args", {}), **data.get("env", {})}.items():
        assert isinstance(choice, dict) and choice.get("reason"), key
    for group in ("container", "bridge", "speculation", "images", "swap", "journal", "publish", "compile_cache"):
        assert group not in data or data[group].get("reason"), group


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_widths_are_written(name: str) -> None:
    """The step's width always, and the number of sequences with it: state blocks of hybrids bound it."""
    settings = profile(name)["settings"]
    assert {"max_num_batched_tokens", "max_num_seqs", "max_model_len"} <= set(settings)


def test_states_are_kept_aligned() -> None:
    for path in files("model"):
        data = read(path)
        kinds = {layers["kind"] for layers in data["architecture"].get("kv", ())}
        if kinds & HYBRID_STATES and data["architecture"].get("prefix_caching", True):
            assert data["engine"]["mamba_cache_mode"]["value"] == "align", path.stem


def test_windows_stay_within_what_the_model_allows() -> None:
    for name in sorted(PROFILES):
        data = profile(name)
        context = KINDS["model"].model_validate(read(SPECS / "models" / f"{data['model']}.yaml")).context  # type: ignore[attr-defined]
        limit = context.yarn.max_context if context.yarn else context.native
        assert data["settings"]["max_model_len"]["value"] <= limit, name


@pytest.mark.parametrize("path", files("engine"), ids=lambda path: path.stem)
def test_release_agrees_with_its_lock(path: Path) -> None:
    data = read(path)
    assert (SPECS / "engines" / data["flags"]).is_file()
    if "lock" in data:
        lock = (SPECS / "engines" / data["lock"]).read_text(encoding="utf-8")
        pins = dict(re.findall(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==([^ \\]+)", lock, re.MULTILINE))
        assert pins[data["distribution"]] == data["release"]
        assert pins["transformers"] == data["transformers"]
        assert pins.get("torch", data["torch"]).partition("+")[0] == data["torch"]
        for extra in data.get("extras", {}).values():
            distribution, _, pinned = extra["requirement"].partition("==")
            assert pins.get(distribution.partition("[")[0], pinned) == pinned, "an extra that the lock has in another version"


def test_every_extra_is_pinned() -> None:
    for path in files("engine"):
        for name, extra in read(path).get("extras", {}).items():
            assert re.fullmatch(r"[a-z0-9-]+(\[[a-z0-9,]+\])?==[0-9][0-9A-Za-z.]*", extra["requirement"]), name
