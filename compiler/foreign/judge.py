"""Every rule that can be judged from a command: its flags, its environment, its model and its card where specs know them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.absent import absent_findings, is_omni
from compiler.foreign.source import Span, hidden
from compiler.foreign.specs import Described, engine_defaults, repository
from compiler.foreign.veil import MissingFact, PartlyKnown, Veil
from compiler.foreign.wording import in_options
from compiler.lint.registry import rules
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.runner import hits
from compiler.plan import Plan
from compiler.resolve import resolve_plan
from compiler.schema.base import Choice
from compiler.schema.specset import SpecSet

# Rules about what a bundle holds, and how a profile is written; a command has neither.
_OF_BUNDLES = frozenset({"CLT", "DEP", "EVD", "IGN", "IMG", "NET", "PIN"})
_OF_PROFILES = frozenset({
    "CTX014", "ENG009", "ENG010", "ENG018", "ENG020", "SEC001", "SEC003", "SEC004", "SEC005", "SEC006", "SEC007", "SEC008", "SEC009",
    "MEM005", "MEM007", "MDL009", "SPD002", "SPD013",
})  # fmt: skip
_POD = ("image", "network", "storage", "bridge", "watchdog", "deploy", "client")
_PROFILE_KNOWN = frozenset(
    {
        "model",
        "hardware",
        "engine",
        "workload",
        "settings",
        "engine_args",
        "env",
        "speculation",
        "images",
        "yarn_factor",
        "swap",
        "kv_store",
        "names",
        "ignore",
    }
)
FACTS = {
    "model": "the model's spec",
    "card": "the card (--hardware)",
    "link": "how so many GPUs reach each other (a hardware spec of that many)",
    "release": "the release's own spec",
    "variable": "the value of a variable",
    "pod": "a pod of the product",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """Findings about one launch, in its own text, and the codes of rules that nobody could judge, by the fact that was missing."""

    described: Described
    diagnostics: tuple[Diagnostic, ...]
    unjudged: dict[str, tuple[str, ...]]
    looked: int


def judged(described: Described) -> Judged:
    """Runs the rules over a launch."""
    subject = _subject(described)
    launch, read = described.launch, described.arguments
    card = described.specs.hardware.gpu.compute_capability if described.hardware is not None else None
    release = described.release.engine.release
    absent = absent_findings(launch, read, model_known=described.model is not None, capability=card, release=release)
    found = [*described.problems, *absent]
    silenced = {"ENG001"} if is_omni(launch) else set()
    unjudged: dict[str, list[str]] = {}
    looked = 0
    for registered in rules():
        rule = registered.rule
        if rule.stage != "plan" or rule.family in _OF_BUNDLES or rule.code in _OF_PROFILES:
            continue
        try:
            for hit in hits(registered, subject):
                found += [] if rule.code in silenced else [_diagnostic(rule, hit, described)]
            looked += 1
        except MissingFact as missing:
            unjudged.setdefault(missing.fact, []).append(rule.code)
    unjudged.pop("pod", None)
    return Judged(described, tuple(found), {fact: tuple(codes) for fact, codes in unjudged.items()}, looked)


def not_judged(judged: Judged, *, codes: bool = False) -> str | None:
    """A line that says what could not be judged, why and what would help, with `codes` also which rules; None when everything could."""
    if not judged.unjudged:
        return None
    fits = ", whether it fits among them" if any("MEM001" in missing for missing in judged.unjudged.values()) else ""
    parts = []
    for fact, missing in judged.unjudged.items():
        named = f" ({', '.join(missing)})" if codes else ""
        parts.append(f"\n  {len(missing)} for want of {FACTS[fact]}{_remedy(fact, judged.described)}{named}")
    return f"not judged{fits}:" + ";".join(parts)


def _remedy(fact: str, d: Described) -> str:
    """The command that makes the model's spec, where its repository is named."""
    named = repository(d.arguments) if fact == "model" else None
    if named is None:
        return ""
    return f": `podwright new model {named}` writes one, which --specs podwright-specs then reads"


def _subject(d: Described) -> Subject:
    """The specs as written, the plan with what the engine decides by itself, both without what nobody knows."""
    defaults = engine_defaults(d.specs, d.release.flags, model_known=d.model is not None, hardware_known=d.hardware is not None)
    plan = resolve_plan(_resolvable(d, defaults))
    settings = tuple(s for s in plan.engine.settings if s.value is not None)
    env = tuple(v for v in plan.engine.env if v.name in d.launch.env)
    engine = dataclasses.replace(plan.engine, settings=settings, env=env)
    model = dataclasses.replace(plan.model, yarn_factor=_factor(d))
    known = dataclasses.replace(plan, engine=engine, model=model, pod_env=(), secrets=())
    unknown = frozenset(o.dest for o in d.arguments.options.values() if o.unknown)
    return PartlyKnown(_veiled_specs(d), _veiled_plan(d, known), {}, unknown, d.model is not None)


def _resolvable(d: Described, defaults: dict[str, Any]) -> SpecSet:
    """Specs for the resolver: a choice for each thing that it would otherwise decide as the product does."""
    profile = d.specs.profile
    silent = {name: Choice[Any](value=value) for name, value in defaults.items() if name not in d.arguments.options}
    model = d.specs.model.model_copy(update={"context": d.specs.model.context.model_copy(update={"yarn": None})})
    return dataclasses.replace(d.specs, profile=profile.model_copy(update={"engine_args": {**profile.engine_args, **silent}}), model=model)


def _factor(d: Described) -> float | None:
    """The YaRN factor in the command's own override, wherever it stands there."""
    waiting: list[Any] = [o.value for name, o in d.arguments.options.items() if name in ("hf_overrides", "rope_scaling")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            factor = value.get("factor")
            if isinstance(factor, (int, float)) and not isinstance(factor, bool):
                return float(factor)
            waiting += value.values()
    return None


def _veiled_specs(d: Described) -> SpecSet:
    changes: dict[str, Any] = {"profile": Veil(d.specs.profile, "pod", known=_PROFILE_KNOWN)}
    if d.model is None:
        changes["model"] = Veil(d.specs.model, "model", known={"engine", "engine_args", "env"})
    if d.hardware is None:
        changes["hardware"] = Veil(d.specs.hardware, "card", known={"engine", "env"})
    elif d.more_gpus:
        changes["hardware"] = Veil(d.specs.hardware, "link", hidden={"interconnect"})
    if not d.release.exact:
        changes["engine"] = Veil(d.specs.engine, "release", known={"release", "env", "distribution", "preview"})
    return dataclasses.replace(d.specs, **changes)


def _veiled_plan(d: Described, plan: Plan) -> Plan:
    given = d.arguments.options.keys()
    changes: dict[str, Any] = {name: Veil(getattr(plan, name), "pod", known=frozenset()) for name in _POD}
    engine: dict[str, set[str]] = {"model": set(), "card": set()}
    if d.model is None:
        changes["model"] = Veil(plan.model, "model", known={"slug"})
        changes["memory"] = Veil(plan.memory, "model", known=frozenset())
        engine["model"] = {"max_model_len", "runner", "kv_cache_dtype", "drafts"} - (given & {"max_model_len", "kv_cache_dtype"})
        if "speculative_config" in given:  # Then nothing but the command says what drafts.
            engine["model"] -= {"drafts"}
    if d.hardware is None:
        changes["hardware"] = Veil(plan.hardware, "card", known=frozenset())
        if d.model is not None:
            changes["memory"] = Veil(plan.memory, "card", known=frozenset())
            changes["model"] = Veil(plan.model, "card", hidden={"kernel"})
        engine["card"] = {"max_num_seqs", "max_num_batched_tokens"} - set(given)
    elif d.more_gpus:
        changes["hardware"] = Veil(plan.hardware, "link", hidden={"peer_to_peer"})
    veiled: Any = Veil(plan.engine, "model", hidden=engine["model"])
    veiled = Veil(veiled, "card", hidden=engine["card"])
    changes["engine"] = veiled if d.release.exact else Veil(veiled, "release", hidden={"cuda"})
    return dataclasses.replace(plan, **changes)


def _diagnostic(rule: Rule, hit: Hit, d: Described) -> Diagnostic:
    """A hit in the text that the user gave. What an engine serves without a word is no error where nobody said that agents use it."""
    source, span = d.launch.source, _span(hit.place.route, hit.on_key, d)
    severity = hit.severity or rule.severity
    softened = Severity.WARNING if rule.served and severity is Severity.ERROR else severity
    what, why, fix = (in_options(text, d.release.flags, d.arguments) for text in (hit.what, hit.why, hit.fix))
    return Diagnostic(rule.code, softened, hidden(what), why, hidden(fix), source.place(span), source.position(span))


def _span(route: Iterable[str | int], on_key: bool, d: Described) -> Span:
    parts = list(route)
    for name in (str(part) for part in parts[1:2]):
        option = d.arguments.options.get(name)
        if parts[0] in ("engine_args", "settings") and option is not None:
            return option.key_span if on_key else option.span
        if parts[0] == "env" and name in d.launch.env:
            return d.launch.env[name].span
    return d.arguments.model.span if d.arguments.model is not None else d.launch.span
