"""Speculative decoding: the engine's JSON from the profile's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Place
from compiler.plan.core import HubFile
from compiler.resolve.ledger import as_text
from compiler.resolve.settings import Settings
from compiler.schema.base import Choice
from compiler.schema.profile import Speculation
from compiler.schema.specset import SpecKind, SpecSet

DEFAULT_TOKENS = {"mtp": 3, "ngram": 12, "dspark": 8, "dflash": 7, "eagle3": 3}

LOOKUP = (2, 16)  # Shortest and longest n-gram of the bootstrap's defaults (v86).


def decide_speculation(settings: Settings, specs: SpecSet) -> tuple[HubFile, ...]:
    """Sets `speculative_config` and gives the draft models to fetch; nothing when speculation is off."""
    chosen = specs.profile.speculation
    if chosen is None or chosen.method == "off":
        _without_section(settings, specs, chosen)
        return ()
    config, drafts = _section_config(chosen, specs)
    config, reason = _joined(settings, specs, config, chosen.reason or "Chosen without a stated reason.")
    place = str(specs.place("profile", "speculation"))
    settings.values["speculative_config"] = config
    settings.ledger.record("engine.speculative_config", config, "profile", place, reason, chosen.evidence)
    settings.ledger.record("speculation.method", chosen.method, "profile", place, chosen.reason or "Chosen without a stated reason.", chosen.evidence)
    return drafts


def _without_section(settings: Settings, specs: SpecSet, chosen: Speculation | None) -> None:
    """A section that says off wins over `engine_args`; without a section they decide."""
    written = settings.get("speculative_config")
    if chosen is None and written:
        method, reason = settings.mapping("speculative_config").get("method", "off"), "`engine_args` set it; the profile has no section `speculation`."
        settings.ledger.record("speculation.method", method, "profile", str(_written_at(settings, specs)), reason)
        return
    reason = (chosen.reason if chosen else None) or "No speculation is chosen; it is off unless measured to win on this model."
    place = str(specs.place("profile", "speculation")) if chosen else ""
    settings.ledger.record("speculation.method", "off", "profile" if chosen else "default", place, reason, chosen.evidence if chosen else ())
    if chosen is not None and written:
        settings.values["speculative_config"] = None
        _conflict(settings, specs, "method", "off", written)


def _section_config(chosen: Speculation, specs: SpecSet) -> tuple[dict[str, Any], tuple[HubFile, ...]]:
    """The engine's JSON that the section asks for, and its drafts."""
    tokens = chosen.tokens or DEFAULT_TOKENS[chosen.method]
    config: dict[str, Any] = {"method": chosen.method, "num_speculative_tokens": tokens}
    drafts: tuple[HubFile, ...] = ()
    if chosen.method == "ngram":
        shortest = chosen.lookup_min or min(LOOKUP[0], chosen.lookup_max or LOOKUP[0])
        config |= {"prompt_lookup_min": shortest, "prompt_lookup_max": chosen.lookup_max or max(LOOKUP[1], shortest)}
    if chosen.draft is not None:
        revision = chosen.draft.revision or _locked(specs, chosen.draft.repo)
        config["model"] = chosen.draft.repo
        if revision:
            config["revision"] = revision
        drafts = (HubFile(chosen.draft.repo, revision, f"draft model of {chosen.method}"),)
    return config, drafts


def _joined(settings: Settings, specs: SpecSet, section: dict[str, Any], reason: str) -> tuple[dict[str, Any], str]:
    """The section's keys with those that only `engine_args` have. Where both name one key the section wins, and a decision
    of its own says what lost: nothing is dropped unseen."""
    written = settings.get("speculative_config")
    extra = settings.mapping("speculative_config")
    if written and not extra:
        _conflict(settings, specs, "", section, written)
    for key in sorted(section.keys() & extra.keys()):
        if section[key] != extra[key]:
            _conflict(settings, specs, key, section[key], extra[key])
    added = sorted(extra.keys() - section.keys())
    if added:
        reason = f"{reason} From `engine_args`: {', '.join(added)}."
    return {**extra, **section}, reason


def _conflict(settings: Settings, specs: SpecSet, key: str, kept: Any, lost: Any) -> None:
    """Record that `engine_args` and the section `speculation` disagree on a key of the engine's JSON, or on all of it."""
    route = f"speculation.conflict.{key}" if key else "speculation.conflict"
    reason = f"`engine_args` say {as_text(lost)}, the section `speculation` says {as_text(kept)}; the section is used. Keep one of them."
    settings.ledger.record(route, kept, "profile", str(_written_at(settings, specs)), reason)


def _written_at(settings: Settings, specs: SpecSet) -> Place:
    """Where `engine_args` set the engine's JSON: in the profile, else in the model's spec."""
    layers: tuple[tuple[SpecKind, Mapping[str, Choice[Any]]], ...] = (("profile", specs.profile.engine_args), ("model", specs.model.engine_args))
    for kind, written in layers:
        for name in written:
            flag = specs.flags.find(name)
            if "speculative_config" in (flag.dest if flag else "", name.strip("-").replace("-", "_")):
                return specs.place(kind, "engine_args", name)
    return specs.place("profile", "engine_args")


def _locked(specs: SpecSet, repo: str) -> str | None:
    locked = specs.lock.repos.get(repo)
    return locked.revision if locked else None
