"""JSON Schemas of the specs, for editors and for anybody who checks specs without us."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from compiler.artifact import Artifact, Bundle
from compiler.schema import KINDS, Choice, Spec
from compiler.schema.lock import LockSpec

KINDS_WITH_SCHEMA: dict[str, type[Spec]] = {**KINDS, "lock": LockSpec}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _SpecSchema(GenerateJsonSchema):
    """Pydantic's schema, in which a choice may also be written as its bare value."""

    schema_dialect = DIALECT

    def model_schema(self, schema: Any) -> dict[str, Any]:
        found = super().model_schema(schema)
        if issubclass(schema["cls"], Choice):
            short = dict(found["properties"]["value"])
            return {"anyOf": [short, found], "title": found.get("title", ""), "description": "A bare value, or the value with its reason and evidence."}
        return found


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one kind of spec. Raises KeyError for an unknown kind."""
    schema = KINDS_WITH_SCHEMA[kind].model_json_schema(schema_generator=_SpecSchema)
    return {"$schema": DIALECT, "$id": f"https://podwright.dev/schemas/{kind}.schema.json", **schema, "title": f"podwright {kind} spec"}


def schema_bundle() -> Bundle:
    """All schemas as files, `<kind>.schema.json`."""
    texts = {kind: json.dumps(json_schema(kind), indent=1, ensure_ascii=False, sort_keys=True) + "\n" for kind in KINDS_WITH_SCHEMA}
    return Bundle.of("schemas", [Artifact(f"{kind}.schema.json", text.encode()) for kind, text in texts.items()])
