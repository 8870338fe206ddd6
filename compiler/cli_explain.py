"""`podwright explain`: decided values, rules, and the causes of failures."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from compiler.cli_options import Json, OnlySpecs, Specs, profile_names
from compiler.command_support import spec_store, usable_specset


def explain(
    subject: Annotated[str | None, typer.Argument(help="Profile name, or the code of a rule.", autocompletion=profile_names, show_default=False)] = None,
    route: Annotated[str | None, typer.Argument(help="A decided value, for instance engine.max_num_batched_tokens. Absent: all of them.", show_default=False)] = None,
    log: Annotated[str | None, typer.Option("--log", metavar="FILE", help="Tell what a log or an API answer says of a failure; - reads standard input. With a profile: the spec line to change.", show_default=False)] = None,
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Tell where a decided value comes from, why, and on which measurements; print a rule's page; or say why a pod failed.

    With --log, exit code 0 means that a cause is known, 1 that none is.

    Examples:

      podwright explain nemotron-ada engine.max_num_batched_tokens

      podwright explain nemotron-ada

      podwright explain MEM001

      podwright explain --log engine.log

      podwright logs nemotron-ada | podwright explain nemotron-ada --log - --json
    """
    if log is not None:
        raise typer.Exit(_log(log, subject, route, specs, only_specs, as_json))
    if subject is None:
        raise typer.BadParameter("name a profile, a rule's code, or a log with --log", param_hint="SUBJECT")
    from compiler import explaining

    if route is None and re.fullmatch(r"[A-Za-z]{2,4}[0-9]{3}", subject):
        raise typer.Exit(explaining.print_rule(subject.upper(), as_json=as_json))
    store = spec_store(specs, only_specs)
    raise typer.Exit(explaining.print_decisions(usable_specset(store, subject, as_json), store, route, as_json=as_json))


def _log(log: str, profile: str | None, route: str | None, specs: Specs, only_specs: bool, as_json: bool) -> int:
    from compiler import explaining_log

    if route is not None:
        raise typer.BadParameter("a log is explained as a whole", param_hint="ROUTE")
    if profile is None:
        return explaining_log.print_log(log, None, None, as_json=as_json)
    store = spec_store(specs, only_specs)
    return explaining_log.print_log(log, usable_specset(store, profile, as_json), store, as_json=as_json)
