"""Speculative decoding: the engine's JSON from the profile's choice."""

from __future__ import annotations

from typing import Any

from compiler.plan.core import HubFile
from compiler.resolve.settings import Settings
from compiler.schema.specset import SpecSet

DEFAULT_TOKENS = {"mtp": 3, "ngram": 12, "dspark": 8, "dflash": 7, "eagle3": 3}


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
        config |= {"prompt_lookup_min": chosen.lookup_min or 2, "prompt_lookup_max": chosen.lookup_max or 16}
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
