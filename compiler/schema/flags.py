"""The flag snapshot of an engine release: its real parser's options as data.

`images/engine/snapshot_flags.py` records it inside the engine's own environment; `specs/engines/flags/` keeps it.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, Literal

FlagKind = Literal["value", "switch", "switch-pair", "list", "json", "append"]


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One option of the engine's command line.

    `options` are its spellings, the canonical one first; `negative` is the spelling that turns a switch pair off.
    `type` is the parser's name for the value (`int`, `float`, `str`, `json`, `human_int`, ...); `keys` are the keys
    that a JSON value may have, empty when any may stand there; `key_choices` are the only texts that some of them take.
    """

    dest: str
    options: tuple[str, ...]
    negative: str | None
    kind: FlagKind
    type: str
    choices: tuple[str, ...]
    nargs: str | int | None
    default: Any
    help: str
    keys: tuple[str, ...]
    key_choices: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionBackend:
    """What one attention backend of a release declares. What it does not declare is refused; what it declares may still be."""

    kv_cache_dtypes: tuple[str, ...]
    head_sizes: tuple[int, ...]
    capabilities: tuple[str, ...]
    abilities: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FlagTable:
    """All options of one release, by `dest` and by spelling, with the names that its registries know.

    `min_capability` gives the lowest compute capability of a quantization method, as major * 10 + minor;
    `backends` holds the attention backends that could be looked at on the machine that took the snapshot.
    """

    release: str
    path: str
    flags: dict[str, Flag]
    by_option: dict[str, str]
    registries: dict[str, tuple[str, ...]]
    min_capability: dict[str, int]
    backends: dict[str, AttentionBackend] = dataclasses.field(default_factory=dict)

    def find(self, name: str) -> Flag | None:
        """The flag for a `dest`, or for an option spelled with or without its dashes; None when the release has none."""
        dest = name if name in self.flags else self.by_option.get("--" + name.strip("-").replace("_", "-"))
        return self.flags.get(dest) if dest else None

    def nearest(self, name: str) -> str | None:
        """The known option that is spelled most like `name`, without dashes; None when nothing comes close."""
        wanted = name.strip("-").replace("_", "-")
        close = difflib.get_close_matches(wanted, [option.strip("-") for option in self.by_option], n=1, cutoff=0.6)
        return close[0].replace("-", "_") if close else None

    def knows(self, registry: str, name: str) -> bool:
        """True when a registry of the release lists `name`, or when the snapshot does not hold that registry."""
        return registry not in self.registries or name in self.registries[registry]
