"""Reads an engine release's flag snapshot (JSON) into a `FlagTable`."""

from __future__ import annotations

import json
from typing import Any

from compiler.schema.flags import AttentionBackend, Flag, FlagKind, FlagTable

FORMAT = 1
_KINDS: dict[str, FlagKind] = {"boolean": "switch-pair", "store_true": "switch", "append": "append"}


def flag_table(path: str, text: str) -> FlagTable:
    """The table in a snapshot's text. Raises ValueError or KeyError when it is not a snapshot of a known format."""
    raw = json.loads(text)
    if raw.get("format") != FORMAT:
        raise ValueError(f"snapshot format {raw.get('format')!r}, this podwright reads {FORMAT}")
    flags = [_flag(entry, raw["configs"]) for entry in raw["flags"].values() if entry["kind"] != "help"]
    by_option = {option: flag.dest for flag in flags for option in flag.options if option.startswith("--")}
    registries = {name: tuple(values) for name, values in raw["registries"].items() if isinstance(values, list)}
    capability = raw["registries"].get("quantization_min_capability", {})
    return FlagTable(raw["release"], path, {f.dest: f for f in flags}, by_option, registries, capability, _backends(raw.get("backends", {})))


def _backends(raw: dict[str, dict[str, Any]]) -> dict[str, AttentionBackend]:
    return {
        name: AttentionBackend(
            tuple(entry["declared_kv_cache_dtypes"]), tuple(entry["head_sizes"]), tuple(entry["capabilities"]), tuple(entry["abilities"]),
        )
        for name, entry in raw.items() if "declared_kv_cache_dtypes" in entry
    }  # fmt: skip


def _flag(entry: dict[str, Any], configs: dict[str, Any]) -> Flag:
    negative = entry.get("negative", [])
    options = [o for o in entry["options"] if o not in negative]
    ordered = sorted(options, key=lambda o: not o.startswith("--"))
    fields = configs.get(entry.get("config", ""), {}).get("fields", {})
    literals = {k: tuple(str(c) for c in f["choices"]) for k, f in fields.items() if f["type"].startswith("Literal") and "choices" in f}
    return Flag(
        dest=entry["dest"], options=tuple(ordered), negative=negative[0] if negative else None, kind=_kind(entry), type=entry.get("type") or "bool",
        choices=tuple(str(c) for c in entry.get("choices", ())), nargs=entry.get("nargs"), default=entry.get("default"), help=entry.get("help", ""), keys=tuple(fields),
        key_choices=literals,
    )  # fmt: skip


def _kind(entry: dict[str, Any]) -> FlagKind:
    if entry["kind"] in _KINDS:
        return _KINDS[entry["kind"]]
    if entry.get("type") in ("json", "config", "json_or_str"):
        return "json"
    return "list" if entry.get("nargs") in ("+", "*") else "value"
