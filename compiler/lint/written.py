"""Engine options as people wrote them: every choice of every spec with its place, before one layer wins over another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Place
from compiler.lint.rule import Subject
from compiler.schema.base import Choice
from compiler.schema.specset import SpecKind

# Settings that resolve takes from another section of a spec.
_ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "tool_call_parser": {"model": ("parsers", "tool_call")},
    "reasoning_parser": {"model": ("parsers", "reasoning")},
    "limit_mm_per_prompt": {"model": ("vision",), "profile": ("images",)},
    "speculative_config": {"profile": ("speculation",)},
    "hf_overrides": {"profile": ("yarn_factor",), "model": ("context", "yarn")},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """One choice of an engine option: the key as written, the parser's `dest` (or the key with underscores), where."""

    key: str
    dest: str
    choice: Choice[Any]
    kind: SpecKind
    section: str
    place: Place


def written_options(subject: Subject) -> list[Written]:
    """Choices of model, hardware and profile in the order in which they win, the last one over the others."""
    specs = subject.specs
    layers: tuple[tuple[SpecKind, str, Mapping[str, Choice[Any] | None]], ...] = (
        ("model", "engine", _modelled(specs.model.engine)),
        ("model", "engine_args", specs.model.engine_args),
        ("hardware", "engine", _modelled(specs.hardware.engine)),
        ("profile", "settings", _modelled(specs.profile.settings)),
        ("profile", "engine_args", specs.profile.engine_args),
    )
    return [written for layer in layers for written in _layer(subject, *layer)]


def option_place(subject: Subject, dest: str) -> Place:
    """Where an option was written last; for one that follows from another section, that section; else the profile's settings."""
    places = [w.place for w in written_options(subject) if w.dest == dest]
    if places:
        return places[-1]
    decision = next((d for d in subject.plan.decisions if d.route == f"engine.{dest}"), None)
    route = _ELSEWHERE.get(dest, {}).get(decision.origin) if decision else None
    if decision is not None and route is not None:
        kind: SpecKind = "model" if decision.origin == "model" else "profile"
        return subject.place(kind, *route)
    return subject.setting_place(dest)


def is_none_or(value: Any, *allowed: type) -> bool:
    """True for None and for a value of one of the types; a bool is no int here."""
    return value is None or (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool)))


def _modelled(settings: Any) -> dict[str, Choice[Any] | None]:
    return {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}


def _layer(subject: Subject, kind: SpecKind, section: str, choices: Mapping[str, Choice[Any] | None]) -> Iterator[Written]:
    for key in sorted(choices):
        choice = choices[key]
        if choice is not None:
            flag = subject.specs.flags.find(key)
            dest = flag.dest if flag else key.strip("-").replace("-", "_")
            yield Written(key, dest, choice, kind, section, subject.place(kind, section, key))
