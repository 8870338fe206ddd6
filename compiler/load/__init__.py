"""YAML text to specs with a source map. The only reader of `specs/`, and of the static files that images are built from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, Place, Route, Severity
from compiler.load.edit import edited, scalar
from compiler.load.store import SpecStore, extended, logical, missing_reference, name_problems
from compiler.load.validate import validated
from compiler.schema import EngineSpec, HardwareSpec, Measurement, ModelSpec, ProfileSpec
from compiler.schema.flags import FlagTable
from compiler.schema.specset import SpecKind, SpecSet

__all__ = ["SpecStore", "data_root", "edited", "image_files", "load_specset", "logical", "scalar"]


def data_root() -> Path:
    """The folder that holds `specs`, `templates` and `images`: the checkout, or the data inside an installed package."""
    package = Path(__file__).resolve().parent.parent
    return package / "_data" if (package / "_data").is_dir() else package.parent


def image_files(root: Path) -> dict[str, bytes]:
    """All files below `images/`, by their path relative to it, except caches."""
    folder = root / "images"
    found = (f for f in sorted(folder.rglob("*")) if f.is_file())
    inside = {f.relative_to(folder): f for f in found}
    return {path.as_posix(): f.read_bytes() for path, f in inside.items() if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)}


def load_specset(store: SpecStore, name: str, *, swap_of: str | None = None) -> tuple[SpecSet | None, list[Diagnostic]]:
    """The specs of one profile, typed and complete, and all that is wrong with them; None when they cannot be used."""
    if not store.exists(logical("profile", name)):
        return None, [missing_reference(store, "profile", name, Place(logical("profile", name)))]
    data, origins, problems = extended(store, name)
    problems += name_problems("profile", name)
    if data is None:
        return None, problems
    profile, more = validated(ProfileSpec, logical("profile", name), data)
    problems += store.without_echoes(problems, [_at_origin(d, origins) for d in more])
    if profile is None:
        return None, problems + _reference_problems(store, data, origins, name)
    parts, more = _parts(store, name, profile, origins)
    problems += more
    swap, more = _swap(store, name, profile, swap_of)
    problems += more
    if parts is None:
        return None, problems
    model, hardware, engine, flags = parts
    engine_lock, more = store.engine_lock(engine.lock, Place(logical("engine", profile.engine or ""), ("lock",))) if engine.lock else (None, [])
    problems += more
    evidence, more = _evidence(store, name, profile, model, hardware, engine, origins)
    lock, lock_problems = store.lock(name)
    problems += more + lock_problems
    swap = tuple(dataclasses.replace(member, lock=lock.over(member.lock)) for member in swap)
    paths = _paths(name, profile)
    own = {path: store.file_hash(path) for path in _inputs(store, name, paths, origins, flags, evidence, engine.lock)}
    inputs = tuple(sorted({**dict(pair for member in swap for pair in member.inputs), **own}.items()))
    specset = SpecSet(name, profile, model, hardware, engine, flags, lock, swap, evidence, paths, origins, inputs, engine_lock)
    return (None if any(d.is_error for d in problems) else specset), problems


def _parts(store: SpecStore, name: str, profile: ProfileSpec, origins: dict[Route, str]) -> tuple[tuple[ModelSpec, HardwareSpec, EngineSpec, FlagTable] | None, list[Diagnostic]]:
    problems: list[Diagnostic] = []
    found: dict[str, Any] = {}
    for kind in ("model", "hardware", "engine"):
        reference = getattr(profile, kind)
        place = Place(origins.get((kind,), logical("profile", name)), (kind,))
        if reference is None:
            what = Diagnostic("SPC012", Severity.ERROR, f"missing key `{kind}`", "Nothing can be decided without it.", f"Add `{kind}:` with the name of a spec, or `extends:` a profile that has it.", place, on_key=True)
            problems.append(what)
        elif not store.exists(logical(kind, reference)):
            problems.append(missing_reference(store, kind, reference, place))
        else:
            found[kind], more = store.spec(kind, reference)
            problems += more
    engine = found.get("engine")
    if engine is not None:
        flags, more = store.flags(engine.flags, Place(logical("engine", profile.engine or ""), ("flags",)))
        problems += more
        if flags is not None and all(found.get(k) is not None for k in ("model", "hardware")):
            return (found["model"], found["hardware"], engine, flags), problems
    return None, problems


def _reference_problems(store: SpecStore, data: dict[str, Any], origins: dict[Route, str], name: str) -> list[Diagnostic]:
    """When the profile itself is broken, its references are still checked: all problems at once."""
    problems: list[Diagnostic] = []
    for kind in ("model", "hardware", "engine"):
        reference = data.get(kind)
        if isinstance(reference, str) and reference:
            if store.exists(logical(kind, reference)):
                problems += store.spec(kind, reference)[1]
            else:
                problems.append(missing_reference(store, kind, reference, Place(origins.get((kind,), logical("profile", name)), (kind,))))
    return problems


def _swap(store: SpecStore, name: str, profile: ProfileSpec, swap_of: str | None) -> tuple[tuple[SpecSet, ...], list[Diagnostic]]:
    """The members' own spec sets. A member's own swap set is not followed: models of one set take turns on one level."""
    if profile.swap is None or swap_of is not None:
        return (), []
    members: list[SpecSet] = []
    problems: list[Diagnostic] = []
    for index, member in enumerate(profile.swap.members):
        if not store.exists(logical("profile", member)):
            problems.append(missing_reference(store, "profile", member, Place(logical("profile", name), ("swap", "members", index))))
            continue
        specset, more = load_specset(store, member, swap_of=name)
        problems += more
        if specset is not None:
            members.append(specset)
    return tuple(members), problems


def _evidence(
    store: SpecStore, name: str, profile: ProfileSpec, model: ModelSpec, hardware: HardwareSpec, engine: EngineSpec, origins: dict[Route, str]
) -> tuple[dict[str, Measurement], list[Diagnostic]]:
    """Every measurement that one of the specs cites."""
    found: dict[str, Measurement] = {}
    problems: list[Diagnostic] = []
    paths = _paths(name, profile)
    for kind, spec in (("profile", profile), ("model", model), ("hardware", hardware), ("engine", engine)):
        for route, reference in _citations(spec, ()):
            if kind == "hardware" and _is_start_of_another_model(hardware, route, profile.model):
                continue
            if reference in found:
                continue
            path = next((origins[route[:end]] for end in range(len(route), 0, -1) if route[:end] in origins), paths[kind]) if kind == "profile" else paths[kind]  # type: ignore[index]
            measurement, more = store.measurement(reference, Place(path, route))
            problems += more
            if measurement is not None:
                found[reference] = measurement
    return found, problems


def _is_start_of_another_model(hardware: HardwareSpec, route: Route, model: str | None) -> bool:
    """True below a row of `starts` that is not about the profile's model: its plan never reads it."""
    index = route[1] if route[0] == "starts" and len(route) > 1 else None
    return isinstance(index, int) and hardware.starts[index].model != model


def _citations(value: Any, route: Route) -> list[tuple[Route, str]]:
    """Routes and references of all `evidence` keys inside a typed spec."""
    found: list[tuple[Route, str]] = []
    if hasattr(type(value), "model_fields"):
        for name in type(value).model_fields:
            inner = getattr(value, name)
            if name == "evidence":
                references = inner if isinstance(inner, tuple) else (inner,)
                found += [((*route, name, i) if isinstance(inner, tuple) else (*route, name), r) for i, r in enumerate(references)]
            else:
                found += _citations(inner, (*route, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            found += _citations(item, (*route, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            found += _citations(item, (*route, key))
    return found


def _paths(name: str, profile: ProfileSpec) -> dict[SpecKind, str]:
    return {
        "profile": logical("profile", name), "model": logical("model", profile.model or ""), "hardware": logical("hardware", profile.hardware or ""),
        "engine": logical("engine", profile.engine or ""), "lock": f"specs/locks/{name}.yaml",
    }  # fmt: skip


def _inputs(store: SpecStore, name: str, paths: dict[SpecKind, str], origins: dict[Route, str], flags: FlagTable, evidence: dict[str, Measurement], engine_lock: str | None) -> list[str]:
    topics = {logical("evidence", reference.partition("/")[0]) for reference in evidence}
    lock = {paths["lock"]} if store.exists(paths["lock"]) else set()
    own = {paths[kind] for kind in ("profile", "model", "hardware", "engine")}
    pins = {f"specs/engines/{engine_lock}"} if engine_lock and store.exists(f"specs/engines/{engine_lock}") else set()
    return sorted(own | set(origins.values()) | lock | topics | pins | {flags.path})


def _at_origin(d: Diagnostic, origins: dict[Route, str]) -> Diagnostic:
    """The finding in the file that wrote the value, which may be a profile further up."""
    for end in range(len(d.place.route), 0, -1):
        if d.place.route[:end] in origins:
            return dataclasses.replace(d, place=Place(origins[d.place.route[:end]], d.place.route))
    return d

