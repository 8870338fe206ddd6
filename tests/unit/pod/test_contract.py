"""The manifest: round trip, strictness, canonical form, and what a change costs."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.contract import SCHEMA_VERSION, Manifest, ManifestError, NewerSchemaError, Swap

from tests.unit.pod.manifests import example_manifest, with_launch


def changed(route: str, value: Any) -> dict[str, Any]:
    data: Any = copy.deepcopy(example_manifest().to_json())
    *parents, last = [int(part) if part.isdigit() else part for part in route.split(".")]
    inner = data
    for part in parents:
        inner = inner[part]
    inner[last] = value
    return data


def test_round_trip_keeps_every_field() -> None:
    manifest = example_manifest()
    text = json.dumps(manifest.to_json()).encode()
    assert Manifest.from_bytes(text).to_json() == manifest.to_json()
    assert Manifest.from_bytes(text) == manifest


@pytest.mark.parametrize(("route", "value", "problem_at"), [
    ("surprise", 1, "surprise"),
    ("engine.launch.extra", 1, "engine.launch.extra"),
    ("engine.launch.port", "18081", "engine.launch.port"),
    ("engine.launch.port", True, "engine.launch.port"),
    ("engine.launch.port", 70000, "engine.launch.port"),
    ("engine.launch.argv", [], "engine.launch.argv"),
    ("engine.launch.argv.1", 5, "engine.launch.argv[1]"),
    ("engine.launch.argv.1", "a\0b", "engine.launch.argv[1]"),
    ("engine.launch.argv.1", "\ud800", "engine.launch.argv[1]"),
    ("engine.launch.env.A", None, "engine.launch.env.A"),
    ("engine.launch.env.A=B", "1", "engine.launch.env.A=B"),
    ("engine.launch.fetch.0.role", "weights", "engine.launch.fetch[0].role"),
    ("engine.served_names", [], "engine.served_names"),
    ("bridge.ping_s", float("inf"), "bridge.ping_s"),
    ("bridge.ping_s", 10**400, "bridge.ping_s"),
    ("bridge.mode", ["off"], "bridge.mode"),
    ("bridge.port", 18081, "bridge.port"),
    ("supervisor.follow", [], "supervisor.follow"),
    ("supervisor.compile_caches.other", {"repo": "o/c", "key": "k", "key_parts": {}}, "supervisor.compile_caches.other"),
    ("supervisor.overrides.0.pattern", "(", "supervisor.overrides[0].pattern"),
    ("schema_version", 0, "schema_version"),
    ("swap", {"others": [example_manifest().to_json()["engine"]], "preload": True}, "swap.others"),
])  # fmt: skip
def test_refusals_name_the_route(route: str, value: Any, problem_at: str) -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest.from_json(changed(route, value))
    assert caught.value.route == problem_at


def test_a_missing_field_is_refused() -> None:
    data = example_manifest().to_json()
    del data["bridge"]["guard"]
    with pytest.raises(ManifestError, match=r"bridge\.guard: is missing"):
        Manifest.from_json(data)


def test_a_newer_schema_is_told_apart_before_its_fields_are_looked_at() -> None:
    with pytest.raises(NewerSchemaError):
        Manifest.from_json({"schema_version": SCHEMA_VERSION + 1, "all": "new"})


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"null", b"\xff", b'{"a": NaN}', b'{"profile": "a", "profile": "b"}', b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}",
])  # fmt: skip
def test_broken_text_is_a_manifest_error(text: bytes) -> None:
    with pytest.raises(ManifestError):
        Manifest.from_bytes(text)


def test_canonical_bytes_do_not_depend_on_order_or_layout() -> None:
    manifest = example_manifest()
    scrambled = json.dumps(dict(reversed(manifest.to_json().items())), indent=3).encode()
    canonical = Manifest.from_bytes(scrambled).canonical_bytes()
    assert canonical == manifest.canonical_bytes()
    assert b", " not in canonical and canonical.startswith(b'{"bridge":')
    assert manifest.sha256() == hashlib.sha256(canonical).hexdigest()


@pytest.mark.parametrize(("new", "groups"), [
    (example_manifest(), ()),
    (example_manifest(compiler="9.9.9"), ()),
    (with_launch(example_manifest(), argv=("vllm", "serve", "other")), ("engine",)),
    (with_launch(example_manifest(), env={"A": "1", "B": "3"}), ("engine",)),
    (example_manifest(bridge=dataclasses.replace(example_manifest().bridge, ping_s=5.0)), ("bridge",)),
    (example_manifest(supervisor=dataclasses.replace(example_manifest().supervisor, follow=None)), ("supervisor",)),
    (example_manifest(pod=dataclasses.replace(example_manifest().pod, image="i:2")), ("pod",)),
    (example_manifest(engine=dataclasses.replace(example_manifest().engine, context_window=1)), ("supervisor", "bridge")),
    (example_manifest(swap=Swap((dataclasses.replace(example_manifest().engine, name="q"),), True)), ("supervisor", "bridge")),
])  # fmt: skip
def test_changes_name_what_differs(new: Manifest, groups: tuple[str, ...]) -> None:
    assert example_manifest().changes(new) == groups


def test_sizes_and_reasons_change_nothing() -> None:
    old = example_manifest()
    fetch = dataclasses.replace(old.engine.launch.fetch[0], expected_bytes=27)
    patch = dataclasses.replace(old.engine.launch.config_patches[0], reason="better words")
    new = with_launch(old, fetch=(fetch,), config_patches=(patch,))
    assert old.changes(new) == ()
    assert old.sha256() != new.sha256()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8,
)  # fmt: skip


@given(st.sampled_from(["engine", "engine.launch.env", "bridge.effort_budgets", "supervisor.overrides", "pod.ports", "swap", "profile"]), json_values)
def test_any_value_anywhere_is_read_or_refused_and_never_crashes(route: str, value: Any) -> None:
    try:
        manifest = Manifest.from_json(changed(route, value))
    except ManifestError:
        return
    assert Manifest.from_bytes(manifest.canonical_bytes()).canonical_bytes() == manifest.canonical_bytes()
