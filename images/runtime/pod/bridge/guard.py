"""The guard: refuses calls that would overwrite a whole file with a text that leaves parts of it out, and destructive commands.

A tired model writes `... rest of file` where the rest of the file should stand, and a tool that writes whole files then
destroys it. Only tools that write whole files are looked at, and only markers that say so: `[...]` or `# ...` alone are common
in honest files and are let through.
"""

from __future__ import annotations

import re
from typing import Any

from pod.bridge.guard_commands import destroys

WRITERS = frozenset({"write", "write_file", "writefile", "create_file", "createfile"})
_THING = "file|code|content|contents|lines|methods?|functions?|implementation|unchanged|same|here"
_REST = r"(?:the\s+)?(?:rest|remainder|remaining|previous|existing|unchanged|other|same)\b"
_MARKERS = re.compile(
    rf"(?:\.\.\.|…)\s*\(?{_REST}[^\n]{{0,60}}\b(?:{_THING})\b"
    rf"|\[\s*(?:\.\.\.|…)\s*{_REST}[^\]\n]{{0,60}}\]"
    r"|\(\s*(?:\.\.\.|…)?\s*(?:le\s+)?reste\s+du\s+(?:fichier|code)"
    r"|(?:\.\.\.|…)\s*(?:le\s+)?reste\s+du\s+(?:fichier|code)"
    r"|<\s*unchanged\s*/?\s*>",
    re.IGNORECASE,
)


def refusal(name: str, arguments: dict[str, Any]) -> str | None:
    """Why a call must not reach the client, or None. The text is for the user and the model."""
    if what := destroys(name, arguments):
        return f"The call of {name} was held back: {what}. Nothing was run; whoever means it can run it by hand."
    if name.rpartition("__")[2].casefold() not in WRITERS:
        return None
    for value in arguments.values():
        found = _MARKERS.search(value) if isinstance(value, str) else None
        if found:
            return (f"The call of {name} was held back: the text has {found[0].strip()!r} in place of a part of the file, and writing it "
                    "would destroy that part. Write the whole file, or edit only what changes.")  # fmt: skip
    return None
