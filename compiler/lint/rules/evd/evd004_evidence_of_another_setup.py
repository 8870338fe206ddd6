"""A choice rests only on measurements of another card, or of another value.

## What it flags
A setting, argument, variable or section none of whose evidence was measured on the profile's card and number of GPUs with the chosen
value. Only what a record states is compared; superseded records are EVD002's. What does not depend on the card is left out: the
image, the bridge, the client, the watchdog, and fields of an answer.

## Why it hurts
A lever that wins on one card loses on the next: the choice is a guess until it is measured here.

## Example
    max_num_batched_tokens: {value: 8192, evidence: [nemotron-blackwell/nemotron-pro6000-batched8192-agg8]}   # on an A40

## Use instead
Measure it on this card and cite that, or say in the reason why it carries over.

## When to ignore
Where the reason says why the card does not matter.

## Source
`hardware`, `gpus` and `settings` in specs/evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.cited import citations
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.setups import differences
from compiler.lint.written import written_options

RULE = Rule(code="EVD004", name="evidence-of-another-setup", severity=Severity.INFO, traps=("spec-transfer",))

_ANYWHERE = frozenset(
    {
        "container",
        "bridge",
        "client",
        "watchdog",
        "names",
        "enable_prompt_tokens_details",
        "enable_auto_tool_choice",
        "tool_call_parser",
        "reasoning_parser",
    }
)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each choice without a record of this set-up, with what the nearest one differs in."""
    options = {w.place.path + str(w.place.route): w for w in written_options(subject)}
    for cited, place in citations(subject):
        if _ANYWHERE & set(map(str, place.route)):
            continue
        written = options.get(place.path + str(place.route[:-1]))
        option, value = (written.dest, written.choice.value) if written else (None, None)
        records = [(c, subject.specs.evidence[c]) for c in cited if c in subject.specs.evidence]
        found = [(differences(subject, r, option, value), c) for c, r in records if r.verdict != "superseded"]
        if found and all(differing for differing, _ in found):
            differing, nearest = min(found, key=lambda item: len(item[0]))
            why = "what was measured elsewhere may not hold here"
            yield Hit(place, f"{nearest} was {' and '.join(differing)}", why, "measure it here, or say in the reason why it carries over")
