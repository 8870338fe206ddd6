"""An engine option is deprecated in this release.

## What it flags
An option whose own help says that it is deprecated, or a quantization method that needs
`allow_deprecated_quantization`.

## Why it hurts
It works today and is refused by a later release, on the day of an upgrade.

## Example
    settings: {quantization: fp_quant}

## Use instead
The message repeats what the release's help says.

## When to ignore
While the profile stays on this release.

## Source
Help texts and registries in the flag snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options

RULE = Rule(code="ENG012", name="deprecated-option", severity=Severity.WARNING)

SAYS_SO = re.compile(r"(is|are|has been) deprecated|deprecated (and|in favou?r|since)|will be removed", re.IGNORECASE)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each deprecated option or method that a spec chose."""
    flags = subject.specs.flags
    for written in written_options(subject):
        flag = flags.find(written.dest)
        if flag is not None and SAYS_SO.search(flag.help):
            why = "a later release refuses it"
            yield Hit(
                written.place,
                f"`{written.dest}` is deprecated in vLLM {flags.release}",
                why,
                "remove it; its help says: " + " ".join(flag.help.split())[:200],
                on_key=True,
            )
        if written.dest == "quantization" and written.choice.value in flags.registries.get("quantization_methods_deprecated", ()):
            what = f"the quantization method {written.choice.value} is deprecated in vLLM {flags.release}"
            yield Hit(
                written.place,
                what,
                "the engine asks for allow_deprecated_quantization, and a later release drops it",
                "choose another checkpoint",
            )
