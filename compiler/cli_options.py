"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.load import SpecStore, data_root


def profile_names(incomplete: str) -> list[str]:
    """Names of shipped profiles that begin with what was typed, for shell completion."""
    return [n for n in SpecStore([data_root() / "specs"]).names("profile") if n.startswith(incomplete)]


Specs = Annotated[list[Path], typer.Option("--specs", envvar="PODWRIGHT_SPECS", help="A folder with your own specs (profiles/, models/, ...), read before the shipped ones. Repeat for several.", show_default=False)]
OnlySpecs = Annotated[bool, typer.Option("--only-specs", help="Leave the shipped specs out: only the folders of --specs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print findings of severity info, too.")]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for bundles.")]
Profile = Annotated[str, typer.Argument(help="Profile name.", autocompletion=profile_names)]
