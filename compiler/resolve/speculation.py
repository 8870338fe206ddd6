"""Speculative decoding: the engine's JSON from the profile's choice."""

from __future__ import annotations

from typing import Any

from compiler.plan.core import HubFile
from compiler.resolve.settings import Settings
from compiler.schema.specset import SpecSet

DEFAULT_TOKENS = {"mtp": 3, "ngram": 12, "dspark": 8, "dflash": 7, "eagle3": 3}

LOOKUP = (2, 16)  # Shortest and longest n-gram of the bootstrap's defaults (v86).


def decide_speculation(settings: Settings, specs: SpecSet) -> tuple[HubFile, ...]:
    """Sets `speculative_config` and gives the draft models to fetch; nothing when speculation is off."""
    chosen = specs.profile.speculation
    place = str(specs.place("profile", "speculation"))
    if chosen is None or chosen.method == "off":
        reason = (chosen.reason if chosen else None) or "No speculation is chosen; it is off unless measured to win on this model."
        settings.ledger.record("speculation.method", "off", "profile" if chosen else "default", place if chosen else "", reason, chosen.evidence if chosen else ())
        return ()
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
    settings.values["speculative_config"] = config
    settings.ledger.record("engine.speculative_config", config, "profile", place, chosen.reason or "Chosen without a stated reason.", chosen.evidence)
    settings.ledger.record("speculation.method", chosen.method, "profile", place, chosen.reason or "Chosen without a stated reason.", chosen.evidence)
    return drafts


def _locked(specs: SpecSet, repo: str) -> str | None:
    locked = specs.lock.repos.get(repo)
    return locked.revision if locked else None
