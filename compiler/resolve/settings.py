"""Engine settings: layers of specs over defaults, each value with its origin, then one command line from the flag table.

There is no code for single flags here: what an option looks like on the command line comes from the release's snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from compiler.plan.core import Setting
from compiler.resolve.ledger import Ledger
from compiler.schema.base import Choice, EngineSettings
from compiler.schema.flags import Flag, FlagTable
from compiler.schema.specset import SpecKind, SpecSet

T = TypeVar("T")
FIRST = ("served_model_name", "host", "port")  # Readers look for these first; the rest is alphabetical.


class Settings:
    """Settings under decision: values by option name, each recorded in the ledger when it is set."""

    def __init__(self, specs: SpecSet, ledger: Ledger) -> None:
        self.specs, self.ledger = specs, ledger
        self.values: dict[str, Any] = {}

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The decided value, or `otherwise`."""
        return self.values.get(name, otherwise)

    def whole(self, name: str, otherwise: T) -> int | T:
        """The decided value where it is a positive whole number, else `otherwise`: rules report what is none."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise

    def word(self, name: str) -> str | None:
        """The decided value where it is text, else None."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """The decided value where it is a mapping, as data or as JSON text, else an empty one."""
        value = self.values.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return {}
        return value if isinstance(value, dict) else {}

    def default(self, name: str, value: Any, reason: str, evidence: tuple[str, ...] = ()) -> None:
        """Set a value that no spec chose; does nothing when one did."""
        if name not in self.values:
            self.values[name] = value
            self.ledger.default(f"engine.{name}", value, reason, evidence)

    def compute(self, name: str, value: Any, reason: str, evidence: tuple[str, ...] = ()) -> None:
        """Set a value that follows from others; does nothing when a spec chose one."""
        if name not in self.values:
            self.values[name] = value
            self.ledger.computed(f"engine.{name}", value, reason, evidence)

    def replace(self, name: str, value: Any, reason: str) -> None:
        """Put a computed value in place of a symbolic one such as `auto`."""
        self.values[name] = value
        self.ledger.computed(f"engine.{name}", value, reason)

    def take(self, kind: SpecKind, section: str, name: str, choice: Choice[Any]) -> None:
        """Set a value that a spec chose."""
        flag = self.specs.flags.find(name)
        key = flag.dest if flag else name.strip("-").replace("-", "_")
        self.values[key] = choice.value
        self.ledger.choice(f"engine.{key}", kind, self.specs.place(kind, section, name), choice)


def layered_settings(specs: SpecSet, ledger: Ledger) -> Settings:
    """What model, hardware and profile chose, in this order: the last one wins."""
    settings = Settings(specs, ledger)
    layers: tuple[tuple[SpecKind, str, EngineSettings, Mapping[str, Choice[Any]]], ...] = (
        ("model", "engine", specs.model.engine, specs.model.engine_args),
        ("hardware", "engine", specs.hardware.engine, {}),
        ("profile", "settings", specs.profile.settings, specs.profile.engine_args),
    )
    for kind, section, modelled, extra in layers:
        for name in sorted(modelled.model_fields_set):
            choice = getattr(modelled, name)
            if choice is not None:
                settings.take(kind, section, name, choice)
        for name in sorted(extra):
            settings.take(kind, "engine_args", name, extra[name])
    return settings


def rendered_settings(values: Mapping[str, Any], flags: FlagTable) -> tuple[Setting, ...]:
    """Each setting with its words on the command line, in a stable order. Settings that add no word are kept, too."""
    order = sorted(values, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return tuple(Setting(name, _frozen(values[name]), tuple(words(name, values[name], flags.find(name)))) for name in order)


def words(name: str, value: Any, flag: Flag | None) -> Iterator[str]:
    """The words that say `name = value` to the release's parser. An option that it does not know is spelled by its name."""
    option = flag.options[0] if flag and flag.options else "--" + name.replace("_", "-")
    if value is None:
        return
    if isinstance(value, bool):
        if value:
            yield option
        elif flag is not None and flag.negative:
            yield flag.negative
        return
    if flag is not None and flag.kind == "append" and isinstance(value, (tuple, list)):
        for item in value:
            yield from (option, _word(item))
        return
    if isinstance(value, (tuple, list)) and (flag is None or flag.kind != "json"):
        yield option
        yield from (_word(item) for item in value)
    elif (word := _word(value)).startswith("-"):
        yield f"{option}={word}"  # On its own the parser would take it for an option.
    else:
        yield from (option, word)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _frozen(value: Any) -> Any:
    """Lists as tuples at every depth, so that a plan read back from JSON is the same plan."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value
