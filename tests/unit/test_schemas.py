"""The JSON Schemas accept what loading accepts, and refuse what editors should underline."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from compiler.load import SpecStore
from compiler.load.validate import validated
from compiler.schema import FOLDERS, KINDS
from compiler.schemas import KINDS_WITH_SCHEMA, json_schema, schema_bundle
from tests.support import SPECS

STORE = SpecStore([SPECS])
FILES = [(kind, name) for kind in FOLDERS for name in STORE.names(kind)]


def problems(kind: str, data: object) -> list[str]:
    return [e.json_path for e in jsonschema.Draft202012Validator(json_schema(kind)).iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS_WITH_SCHEMA)
def test_schema_is_one(kind: str) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"podwright {kind} spec"
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_shipped_spec_validates(kind: str, name: str) -> None:
    file = SPECS / FOLDERS[kind] / f"{name}.yaml"
    data = yaml.safe_load(file.read_text("utf-8"))
    if kind == "profile" and "extends" in data:
        data = {"container": {"recipe": "vllm-venv"}} | data  # What a child inherits, a schema of one file cannot know.
    assert problems(kind, data) == []


@pytest.mark.parametrize(("data", "path"), [
    ({"zzz": 1}, "$"), ({"bridge": {"porrt": 1}}, "$.bridge"), ({"bridge": {"port": "8080"}}, "$.bridge.port"), ({"bridge": {"port": 70000}}, "$.bridge.port"), ({"target": "moon"}, "$.target"),
    ({"settings": {"max_num_seqs": -1}}, "$.settings.max_num_seqs"), ({"secrets": [{"env": "A B", "purpose": "x"}]}, "$.secrets[0].env"), ({"deploy": {"data_centers": ["mars"]}}, "$.deploy.data_centers[0]"),
    ({"summary": ""}, "$.summary"), ({"verified": "soon"}, "$.verified"), ({"swap": {"members": []}}, "$.swap"),
])  # fmt: skip
def test_schema_and_loading_refuse_the_same(data: dict[str, Any], path: str) -> None:
    profile = {"kind": "profile", "summary": "A test.", "container": {"recipe": "vllm-venv"}} | data
    assert [found for found in problems("profile", profile) if found.startswith(path)]
    assert validated(KINDS["profile"], "p", json.loads(json.dumps(profile), object_hook=lambda d: {k: tuple(v) if isinstance(v, list) else v for k, v in d.items()}))[1]


@pytest.mark.parametrize("value", [5, {"value": 5}, {"value": 5, "reason": "A test."}])
def test_choice_may_be_bare(value: object) -> None:
    assert problems("profile", {"kind": "profile", "summary": "A test.", "container": {"recipe": "vllm-venv"}, "settings": {"max_num_seqs": value}}) == []


def test_bundle_of_schemas_is_what_lies_in_the_checkout() -> None:
    bundle = schema_bundle()
    assert {a.path for a in bundle.artifacts} == {f"{kind}.schema.json" for kind in KINDS_WITH_SCHEMA}
    folder = SPECS / "schemas"
    if folder.is_dir():
        assert {a.path: a.text == (folder / a.path).read_text("utf-8") for a in bundle.artifacts} == dict.fromkeys((a.path for a in bundle.artifacts), True)


def test_every_field_says_what_it_is() -> None:
    for kind in KINDS_WITH_SCHEMA:
        parts = json_schema(kind).get("$defs", {})
        for name, part in {"": json_schema(kind), **parts}.items():
            for key, field in part.get("properties", {}).items():
                referred = parts.get(field.get("$ref", "").rpartition("/")[2], {})
                assert field.get("description") or referred.get("description"), f"{kind}: {name}.{key}"
