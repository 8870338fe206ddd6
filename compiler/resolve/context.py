"""The context window: what was asked, what `auto` finds room for, and how a window above native is stretched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler.plan.memory import MemoryPlan
from compiler.resolve.memory.releases import parsed_release
from compiler.resolve.settings import Settings
from compiler.schema.specset import SpecSet

# Tiers of the deployment notes' auto-sizing, extended downwards for small cards.
TIERS = (1_048_576, 1_000_000, 786_432, 524_288, 262_144, 131_072, 65_536, 32_768, 16_384, 8_192)

# 0.33 takes the window from max_position_embeddings alone and refuses one that only the factor reaches; 0.27.1 takes factor times original length, whatever
# stands there. What lies between was not read, and takes both.
LENGTH_IS_TOLD = (0, 28, 0)


def decide_window(settings: Settings, specs: SpecSet, planned: Callable[[int], MemoryPlan]) -> int:
    """The window to serve, in tokens. `auto` takes the largest tier that the low estimate of the KV cache admits."""
    asked = settings.get("max_model_len")
    if asked is None:
        settings.default("max_model_len", specs.model.context.native, "The model's native window.")
        return specs.model.context.native
    if asked != "auto":
        return settings.whole("max_model_len", specs.model.context.native)
    limit = largest_window(specs)
    tiers = [limit, *(tier for tier in TIERS if tier < limit)]
    fitting = next((tier for tier in tiers if planned(tier).verdict == "fits"), tiers[-1])
    settings.replace("max_model_len", fitting, f"`auto`: the largest tier up to {limit:,} that surely fits the planned KV cache.")
    return fitting


def largest_window(specs: SpecSet) -> int:
    """The largest window that the model may be served with, stretched where its spec allows."""
    context = specs.model.context
    if context.yarn is None:
        return context.native
    return context.yarn.max_context or int(context.native * yarn_factor(specs))


def yarn_factor(specs: SpecSet) -> float:
    """The factor to use when the window is above native; 1.0 for a model that is never stretched."""
    if specs.profile.yarn_factor is not None:
        return specs.profile.yarn_factor.value
    return specs.model.context.yarn.factor if specs.model.context.yarn else 1.0


def decide_yarn(settings: Settings, specs: SpecSet, window: int) -> float | None:
    """The YaRN factor in force, or None. Sets the override where the checkpoint keeps its rope parameters.

    A multimodal checkpoint keeps them in `text_config`: an override at the top of its config is accepted and ignored,
    which the engine's configuration phase shows. VLLM_ALLOW_LONG_MAX_MODEL_LEN stays unset: an override that takes
    effect does not need it, and without it one that is ignored is refused at once (docs/decisions).
    """
    yarn = specs.model.context.yarn
    if yarn is None or window <= specs.model.context.native:
        return None
    factor = yarn_factor(specs)
    rope: dict[str, Any] = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": specs.model.context.native}
    rope |= {key: list(value) if isinstance(value, tuple) else value for key, value in yarn.parameters.items()}
    inner: dict[str, Any] = {"rope_parameters": rope}
    if parsed_release(specs.engine.release) >= LENGTH_IS_TOLD:
        inner["max_position_embeddings"] = int(specs.model.context.native * factor)
    override = {"text_config": inner} if yarn.location == "text-config" else inner
    override = _merged(override, settings.mapping("hf_overrides"))
    reason = yarn.reason or f"The window of {window:,} tokens is above the native {specs.model.context.native:,}."
    settings.values["hf_overrides"] = override
    settings.ledger.computed("engine.hf_overrides", override, reason, yarn.evidence)
    return factor


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings; where a key holds a mapping in each, their merger, else the value of `above`."""
    both = {key: _merged(below[key], above[key]) for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**below, **above, **both}
