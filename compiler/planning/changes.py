"""`PATH=VALUE` on the command line: to a key of one of a profile's specs, and to a store in which that key reads differently."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from compiler import secrets
from compiler.diagnostics import Diagnostic, Place, Route, Severity
from compiler.load import SpecStore, logical
from compiler.load.overlay import OverlaidStore
from compiler.load.store import MERGED, extended
from compiler.load.yaml_text import shown
from compiler.schema import KINDS, EngineSpec, HardwareSpec, ModelSpec, ProfileSpec, Spec
from compiler.schema.base import EngineSettings
from compiler.schema.specset import SpecKind, SpecSet

OPTION = "--what-if"
REASON = "Asked on the command line."
# Names that people use for a setting before they know the engine's own.
ALIASES = {
    "context": "max_model_len", "serve.context": "max_model_len", "sequences": "max_num_seqs", "serve.sequences": "max_num_seqs",
    "utilization": "gpu_memory_utilization", "serve.utilization": "gpu_memory_utilization", "serve.kv_dtype": "kv_cache_dtype",
}  # fmt: skip
_REFERENCES: dict[str, type[Spec]] = {"model": ModelSpec, "hardware": HardwareSpec, "engine": EngineSpec}
_SETTINGS = ("settings", "engine_args", "engine", "env")  # Mappings of choices: a new value keeps the form, with a reason of its own.
_PART = re.compile(r"([^.\[\]]+)((?:\[[0-9]+\])*)")
MOST_CHANGES = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One value that reads differently: `text` as it was asked, the spec by its logical path, and the key in it."""

    text: str
    kind: SpecKind
    path: str
    route: Route
    value: Any

    @property
    def place(self) -> Place:
        """Where the change was asked: the command line."""
        return Place(f"{OPTION} {self.text}")


def parsed_changes(texts: Sequence[str], specs: SpecSet) -> tuple[list[Change], list[Diagnostic]]:
    """The changes that `texts` ask for, and a finding for each that names no key of the profile's specs, or one key twice."""
    changes: list[Change] = []
    problems: list[Diagnostic] = []
    if len(texts) > MOST_CHANGES:
        what = f"{len(texts)} changes at once; at most {MOST_CHANGES} are planned"
        return [], [_unusable(str(len(texts)), what, "Write a profile with `extends:` instead.")]
    for text in texts:
        change = _parsed(text, specs)
        if isinstance(change, Diagnostic):
            problems.append(change)
        elif any(c.path == change.path and c.route == change.route for c in changes):
            what = f"`{shown(text.partition('=')[0])}` is changed twice"
            problems.append(_unusable(text, what, "Ask for one value, or run the command once for each.", "Nobody can tell which of the two is meant."))
        else:
            changes.append(change)
    referred = {str(c.route[0]): c.value for c in changes if c.kind == "profile" and c.route[0] in _REFERENCES and isinstance(c.value, str)}
    return [dataclasses.replace(c, path=logical(c.kind, referred[c.kind])) if c.kind in referred else c for c in changes], problems


def _parsed(text: str, specs: SpecSet) -> Change | Diagnostic:
    """The change that one text asks for, or what is wrong with it."""
    path, sign, value = text.partition("=")
    found = secrets.find_secrets(value)
    if found:
        what = f"this looks like a secret in clear ({found[0].kind}); it is not shown here"
        why, fix = "What is typed stays in the shell's history.", "Revoke it, and name it under `secrets:`."
        return Diagnostic("SPC030", Severity.ERROR, what, why, fix, Place(f"{OPTION} {shown(path)}"))
    if not sign or not path:
        return _unusable(text, f"`{shown(text)}` is not PATH=VALUE", "Write for instance `engine.gpu_memory_utilization=0.90`.")
    return _change(text, path.strip(), parsed_value(value.strip()), specs)


def parsed_value(text: str) -> Any:
    """The value that `text` stands for: JSON where it is JSON (numbers, true, null, lists, mappings), else the text itself."""
    try:
        value = json.loads(text, parse_constant=_refused_constant)
    except (ValueError, RecursionError):
        return text
    return _frozen(value) if not isinstance(value, float) or math.isfinite(value) else text


def changed_store(store: SpecStore, specs: SpecSet, changes: Iterable[Change]) -> tuple[OverlaidStore, list[Diagnostic]]:
    """A store in which the changes hold, with a finding for each that leads through something that has no keys."""
    data: dict[str, dict[str, Any]] = {}
    problems: list[Diagnostic] = []
    for change in changes:
        path = change.path
        if path not in data:
            under = store.document(path)[0].data if store.exists(path) else None
            data[path] = copy.deepcopy(under) if isinstance(under, dict) else {}
        inherited = extended(store, specs.name)[0] if change.kind == "profile" else None
        if not _applied(data[path], inherited or data[path], change):
            problems.append(
                _unusable(
                    change.text,
                    f"`{shown(change.text.partition('=')[0])}` leads through a value that has no keys",
                    "Name the key that holds the value.",
                )
            )
    return OverlaidStore(store, data), problems


def of_command_line(problems: Sequence[Diagnostic], before: Sequence[Diagnostic], changes: Sequence[Change]) -> list[Diagnostic]:
    """The findings that the changes brought, each at the change that brought it where that can be told."""
    known = {(d.code, d.place.route, d.what) for d in before}
    return [_at_change(d, changes) for d in problems if (d.code, d.place.route, d.what) not in known]


def _at_change(d: Diagnostic, changes: Sequence[Change]) -> Diagnostic:
    for change in changes:
        length = min(len(change.route), len(d.place.route))
        if d.place.path == change.path and length and d.place.route[:length] == change.route[:length]:
            return dataclasses.replace(d, place=change.place, position=None)
    return d


def _change(text: str, path: str, value: Any, specs: SpecSet) -> Change | Diagnostic:
    route = _route(path)
    target = _target(path, route, specs) if route else None
    if target is not None:
        return Change(text, target[0], specs.paths[target[0]], target[1], value)
    near = difflib.get_close_matches(path, _known_paths(specs), n=3, cutoff=0.6)
    fix = (
        f"Did you mean {', '.join(f'`{name}`' for name in near)}?"
        if near
        else "Name a setting (`engine.max_num_seqs`), a key of the profile (`speculation.method`), "
        "or one of its specs (`hardware.count`); docs/specs lists them."
    )
    return _unusable(text, f"`{shown(path)}` names no key of {specs.name}, its model, hardware or engine", fix)


_SILENT = "Nothing would be changed, and the answer would look like no difference."


def _unusable(text: str, what: str, fix: str, why: str = _SILENT) -> Diagnostic:
    return Diagnostic(
        "PLN001",
        Severity.ERROR,
        what,
        why,
        fix,
        Place(f"{OPTION} {shown(text)}"),
    )


def _route(path: str) -> Route:
    """The chain of keys and indexes in `path`; empty when it is none."""
    route: list[str | int] = []
    for part in path.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return ()
        route += [match[1], *(int(index) for index in re.findall("[0-9]+", match[2]))]
    return tuple(route)


def _target(path: str, route: Route, specs: SpecSet) -> tuple[SpecKind, Route] | None:
    """The spec and the key in it; None where nothing has that name."""
    if len(route) == 3 and route[0] in _SETTINGS and route[2] == "value":
        route = route[:2]  # The value of a choice is what the choice's own name stands for.
    head, rest = route[0], route[1:]
    alias = ALIASES.get(path)
    if alias is not None:
        return _setting(alias, specs)
    if (
        head in ("engine", "serve")
        and len(rest) == 1
        and not (head == "engine" and rest[0] in EngineSpec.model_fields)
        and _is_setting(rest[0], specs)
    ):
        return _setting(str(rest[0]), specs)
    if head in _REFERENCES and rest:
        return (_kind(str(head)), rest) if rest[0] in _REFERENCES[str(head)].model_fields else None
    if head == "profile" and rest:
        return ("profile", rest) if rest[0] in ProfileSpec.model_fields else None
    if head in ProfileSpec.model_fields:
        return "profile", route
    return _setting(str(head), specs) if not rest and _is_setting(head, specs) else None


def _kind(name: str) -> SpecKind:
    return "model" if name == "model" else "hardware" if name == "hardware" else "engine"


def _is_setting(name: str | int, specs: SpecSet) -> bool:
    return name in EngineSettings.model_fields or specs.flags.find(str(name)) is not None


def _setting(name: str, specs: SpecSet) -> tuple[SpecKind, Route]:
    """Where the profile says a setting: where it does already, else in `settings`, else in `engine_args`."""
    flag = specs.flags.find(name)
    dest = flag.dest if flag else name
    for spelled in specs.profile.engine_args:
        known = specs.flags.find(spelled)
        if spelled == dest or (known is not None and known.dest == dest):
            return "profile", ("engine_args", spelled)
    return "profile", (("settings", dest) if dest in EngineSettings.model_fields else ("engine_args", dest))


def _known_paths(specs: SpecSet) -> list[str]:
    settings = {*EngineSettings.model_fields, *specs.flags.flags}
    kinds = {f"{kind}.{name}" for kind in _REFERENCES for name in KINDS[kind].model_fields}
    return sorted({*ALIASES, *(f"engine.{name}" for name in settings), *settings, *kinds, *ProfileSpec.model_fields})


def _applied(data: dict[str, Any], merged: dict[str, Any], change: Change) -> bool:
    """Set the value in `data`, the spec's own; False where the route leads through a value that has no such key or item.

    What the profile inherits is copied down as far as the profile would have to write it: a key of a merged section, or the
    whole of any other key.
    """
    route = change.route
    is_merged = change.kind == "profile" and route[0] in MERGED and len(route) > 1
    own = route[: 2 if is_merged else 1]
    try:
        current: Any = merged
        for key in own:
            current = current.get(key) if isinstance(current, dict) else None
        value = _with(current, route[len(own) :], change.value) if len(route) > len(own) else _as_choice(change)
        data.update(_with(data, own, value))
    except LookupError:
        return False
    return True


def _as_choice(change: Change) -> Any:
    is_choice = len(change.route) == 2 and change.route[0] in _SETTINGS
    return {"value": change.value, "reason": REASON} if is_choice and change.value is not None else change.value


def _with(data: Any, route: Route, value: Any) -> Any:
    """`data` with the value at `route`, through mappings (made on the way) and lists. Raises LookupError where there is no way."""
    if not route:
        return value
    key, rest = route[0], route[1:]
    if isinstance(key, int):
        if not isinstance(data, (tuple, list)) or key >= len(data):
            raise LookupError(key)
        return (*data[:key], _with(data[key], rest, value), *data[key + 1 :])
    if data is not None and not isinstance(data, dict):
        raise LookupError(key)
    return {**(data or {}), key: _with((data or {}).get(key), rest, value)}


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of a spec")


def _frozen(value: Any) -> Any:
    """Lists as tuples at every depth, as specs are read."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
