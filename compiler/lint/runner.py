"""Runs rules over a subject and applies the profile's `ignore:` entries."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic, Severity, stops
from compiler.lint.facts import release, sm
from compiler.lint.ignores import IgnoreUse
from compiler.lint.reach import REACH
from compiler.lint.registry import RegisteredRule, rule_by_code, rules
from compiler.lint.rule import Hit, Rule, Stage, Subject
from compiler.lint.rules.ign import ign001_unused_ignore, ign002_unknown_ignored_code, ign003_ignored_refusal
from compiler.schema.specset import SpecSet

IGNORE_RULES = (ign001_unused_ignore, ign002_unknown_ignored_code, ign003_ignored_refusal)


def findings(subject: Subject, stage: Stage) -> list[Diagnostic]:
    """All hits of the rules of one stage, in the order of codes. Rules are independent, so one never hides another's hit."""
    return [_diagnostic(r.rule, hit) for r in rules() if r.rule.stage == stage for hit in hits(r, subject)]


def hits(registered: RegisteredRule, subject: Subject) -> Iterator[Hit]:
    """The hits of one rule within its reach: none outside its releases and cards, and warnings on a release that was not checked.

    The card is asked for only where the rule's reach depends on it, since a subject may not know it.
    """
    reach, here = REACH.get(registered.rule.code), release(subject)
    if reach is None:
        yield from registered.checked.check(subject)
    elif reach.covers_release(here) and (reach.all_cards or reach.covers_card(sm(subject))):
        for hit in registered.checked.check(subject):
            yield hit if reach.is_proved(here) else _unproved(registered.rule, hit, subject)


def _unproved(rule: Rule, hit: Hit, subject: Subject) -> Hit:
    """The hit on a release that is newer than what was checked: never an error, and it says so."""
    severity = hit.severity or rule.severity
    why = f"{hit.why} (not checked on this release, {subject.plan.engine.release})"
    return dataclasses.replace(hit, severity=Severity.WARNING if severity is Severity.ERROR else severity, why=why)


def apply_ignores(diagnostics: Iterable[Diagnostic], specs: SpecSet) -> list[Diagnostic]:
    """The diagnostics that stay: those that no `ignore:` entry accepts, and findings about the entries themselves.

    Call it once, with the findings of all stages. Errors of a rule whose `refusal` is true stay whatever the profile says.
    """
    found = list(diagnostics)
    ignored = {entry.rule for entry in specs.profile.ignore}
    kept = [d for d in found if d.code not in ignored or _cannot_be_ignored(d)]
    return kept + list(_about_entries(found, specs, looked_at_artifacts=not stops(kept)))


def _about_entries(found: list[Diagnostic], specs: SpecSet, looked_at_artifacts: bool) -> Iterator[Diagnostic]:
    """Findings about `ignore:` entries. After an error nothing is rendered, so entries about artifacts are not judged."""
    codes = [r.rule.code for r in rules()]
    for index, entry in enumerate(specs.profile.ignore):
        registered = rule_by_code(entry.rule)
        if registered is not None and registered.rule.stage == "artifacts" and not looked_at_artifacts:
            continue
        of_code = [d for d in found if d.code == entry.rule]
        use = IgnoreUse(
            code=entry.rule,
            place=specs.place("profile", "ignore", index, "rule"),
            known=registered is not None,
            nearest=next(iter(difflib.get_close_matches(entry.rule, codes, n=1, cutoff=0.5)), None),
            hits=len(of_code),
            kept=any(_cannot_be_ignored(d) for d in of_code),
        )
        for module in IGNORE_RULES:
            yield from (_diagnostic(module.RULE, hit) for hit in module.check_entry(use))


def _cannot_be_ignored(d: Diagnostic) -> bool:
    registered = rule_by_code(d.code)
    return d.is_error and (registered is None or registered.rule.refusal)


def _diagnostic(rule: Rule, hit: Hit) -> Diagnostic:
    return Diagnostic(rule.code, hit.severity or rule.severity, hit.what, hit.why, hit.fix, hit.place, on_key=hit.on_key, edit=hit.edit)
