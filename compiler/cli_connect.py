"""`podwright connect`: Claude Code on a pod."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from compiler.cli_deploy import Transport
from compiler.cli_options import Json, OnlySpecs, Profile, Specs
from compiler.command_support import spec_store, usable_specset


def connect(
    profile: Profile,
    arguments: Annotated[list[str] | None, typer.Argument(help="With --launch: arguments of claude, after --.", show_default=False)] = None,
    launch: Annotated[bool, typer.Option("--launch", help="Start claude with the variables, and leave this shell alone.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Lines that put back what was there before.")] = False,
    shell: Annotated[Literal["sh", "powershell"], typer.Option("--shell", help="For which shell the lines are: bash and zsh, or PowerShell.")] = "sh",
    url: Annotated[str | None, typer.Option("--url", help="Address of the endpoint. Absent: the profile's pod.", show_default=False)] = None,
    transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Point Claude Code at a profile's pod: asks the endpoint what it serves, and prints lines for a shell, or starts claude.

    The lines hold no key: they take it from the variable that the profile names. Warns of settings files that win over them.

    Examples:

      eval "$(podwright connect nemotron-ada)"

      eval "$(podwright connect nemotron-ada --undo)"

      podwright connect nemotron-ada --launch -- -p "What does this repository do?"

      podwright connect nemotron-ada --shell powershell | Out-String | Invoke-Expression
    """
    from compiler.deploy.connect import Orders, run_connect
    from compiler.resolve import resolve_plan

    if arguments and not launch:
        raise typer.BadParameter("are claude's, which only --launch starts", param_hint="ARGUMENTS")
    if undo and (launch or as_json):
        raise typer.BadParameter("prints lines for a shell", param_hint="--undo")
    plan = resolve_plan(usable_specset(spec_store(specs, only_specs), profile, as_json))
    raise typer.Exit(run_connect(plan, Orders(url, shell, undo, launch, tuple(arguments or ()), transport, as_json)))
