"""The one Jinja environment. Templates print and never decide, so all that it adds is quoting."""

from __future__ import annotations

import functools
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def dockerfile_string(value: str) -> str:
    """`value` as a double-quoted word of a LABEL or ENV line, safe from the builder's own substitution.

    A Dockerfile word cannot hold a line break, so each run of white space becomes one space.
    """
    escaped = " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def json_text(value: object) -> str:
    """`value` as compact ASCII JSON, for the exec forms of a Dockerfile and for embedded data."""
    return json.dumps(value, ensure_ascii=True, separators=(", ", ": "))


def comment_text(value: str) -> str:
    """`value` on one line, so that nothing in it can leave the comment that it stands in."""
    return " ".join(value.split())


@functools.cache
def environment() -> jinja2.Environment:
    """The environment over the templates folder: undefined names raise, nothing is escaped unasked."""
    # Imported here because jinja2 costs more to import than a lint or plan run takes, and those never render.
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()), undefined=jinja2.StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, auto_reload=False,
    )  # fmt: skip
    env.filters |= {"sh": shlex.quote, "dockerfile_string": dockerfile_string, "json_text": json_text, "comment": comment_text}
    return env


def templates_folder() -> Path:
    """Where the templates lie: inside an installed package, else at the top of the source tree."""
    packaged = Path(__file__).parents[1] / "_data" / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "templates"


def rendered(template: str, **values: object) -> bytes:
    """`template` with `values`, as UTF-8. Raises jinja2.UndefinedError when a value is missing."""
    return environment().get_template(template).render(**values).encode("utf-8")
