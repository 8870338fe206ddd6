"""How clients are pointed at the endpoint: Claude Code's environment, as the deployment notes measured it on the client."""

from __future__ import annotations

from compiler.plan.core import ClientPlan, EnvVar, ModelPlan
from compiler.resolve.ledger import Ledger
from compiler.resolve.model import MILLION
from compiler.schema.specset import SpecSet

SUFFIX = "[1m]"
# It beats ANTHROPIC_AUTH_TOKEN, and then every request goes to the official API and is billed there.
CONFLICTING = ("ANTHROPIC_API_KEY",)
TOKEN = "ANTHROPIC_AUTH_TOKEN"


def resolve_client(specs: SpecSet, ledger: Ledger, model: ModelPlan, window: int) -> ClientPlan:
    """Names and variables for a window of `window` tokens."""
    name = client_name(specs, model, window)
    small = specs.profile.client.small_model or name
    reason = specs.profile.client.reason or (
        "At a million tokens and more the suffix [1m] is needed: without it the client compacts at about 150,000."
        if window >= MILLION
        else "A bare name: ids that start with claude- ignore a custom window, and the suffix [1m] would promise a million tokens."
    )
    ledger.record("client.model", name, "profile" if specs.profile.client.model else "computed", str(specs.place("profile", "client")) if specs.profile.client.model else "", reason)
    env = client_env(name, small, window)
    for variable in env:
        ledger.computed(f"client.env.{variable.name}", variable.value, variable.why)
    notes = ("Two warnings of the client are harmless: the model is not in its catalogue, and the Advisor is disabled.",)
    return ClientPlan(name, window, min(window, MILLION), CONFLICTING, tuple(env), TOKEN, notes)


def client_env(name: str, small: str, window: int) -> list[EnvVar]:
    """Claude Code's variables for a window of `window` tokens, without address and token."""
    env = [
        EnvVar("ANTHROPIC_MODEL", name, "main model"),
        EnvVar("ANTHROPIC_DEFAULT_OPUS_MODEL", name, "every tier has the one served model"),
        EnvVar("ANTHROPIC_DEFAULT_SONNET_MODEL", name, "every tier has the one served model"),
        EnvVar("ANTHROPIC_DEFAULT_HAIKU_MODEL", small, "background work"),
        EnvVar("ANTHROPIC_SMALL_FAST_MODEL", small, "older clients ask for the small model by this name"),
        EnvVar("CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT", "1", "without it the client assumes 200,000 tokens"),
    ]
    if window < MILLION:
        env.append(EnvVar("CLAUDE_CODE_MAX_CONTEXT_TOKENS", str(window), "the window that is really served; holds for bare names only"))
    # Seen at Claude Code 2.1.332: with the enforcement lifted and no compaction window set, it never compacts by itself.
    env.append(EnvVar("CLAUDE_CODE_AUTO_COMPACT_WINDOW", str(min(window, MILLION)), "compaction starts a little below; without it, and with the enforcement lifted, never"))
    return env


def client_name(specs: SpecSet, model: ModelPlan, window: int) -> str:
    """The name for ANTHROPIC_MODEL: as the profile says, else the first bare name, or its [1m] form from a million tokens on."""
    if specs.profile.client.model:
        return specs.profile.client.model
    bare = specs.model.served_name if not specs.profile.names else model.served_names[0]
    if window < MILLION:
        return bare
    prefixed = f"claude-{specs.model.served_name}{SUFFIX}"
    return prefixed if prefixed in model.served_names else bare + SUFFIX
