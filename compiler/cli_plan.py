"""`podwright plan` and `podwright fit`: what was decided, what another setting would change, what would fit, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli_options import Json, OnlySpecs, Profile, Specs, Verbose
from compiler.command_support import Exit, command_lines, json_findings, refuse, spec_store
from compiler.console import print_findings, print_json, unicode_output
from compiler.diagnostics import Diagnostic, Severity
from compiler.load import SpecStore

if TYPE_CHECKING:  # A plain plan must not wait for what answers questions.
    from compiler.planning import Planned
    from compiler.planning.changes import Change
    from compiler.planning.solving import Goal

WhatIf = Annotated[
    list[str],
    typer.Option(
        "--what-if",
        metavar="PATH=VALUE",
        help="Plan also with this value, side by side. PATH is a setting (engine.max_num_seqs), a key of the profile "
        "(speculation.method), or of one of its specs (hardware.count). Repeat for several.",
        show_default=False,
    ),
]
Solve = Annotated[
    str | None,
    typer.Option(
        "--solve",
        metavar="GOAL",
        help="Find settings: `context` for the largest window that fits, `sessions=6@85k` for room for six sessions of 85,000 tokens.",
        show_default=False,
    ),
]


def model_names(incomplete: str) -> list[str]:
    """Names of shipped models that begin with what was typed, for shell completion."""
    return [name for name in spec_store([], False).names("model") if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(plan)
    app.command()(fit)


def plan(
    profile: Profile,
    what_if: WhatIf = [],
    solve: Solve = None,
    specs: Specs = [],
    only_specs: OnlySpecs = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show what was decided for a profile: memory, context, command line, price. Also for a profile that lint refuses.

    Questions change no file. Exit code 1 means that the plan (with the changes, where some are asked) is refused, or that
    nothing solves the goal.

    Examples:

      podwright plan nemotron-ada

      podwright plan nemotron-ada --what-if engine.gpu_memory_utilization=0.90 --what-if serve.context=262144

      podwright plan qwen38-2xa40 --what-if hardware=rtx-pro-6000 --json

      podwright plan qwen38-2xa40 --solve context

      podwright plan qwen38-2xa40 --solve sessions=6@85k
    """
    from compiler.planning import planned_profile

    store = spec_store(specs, only_specs)
    base, problems = planned_profile(store, profile)
    if base is None:
        refuse(problems, store, as_json)
    if solve is None and not what_if:
        raise typer.Exit(_print_plan(base, store, verbose, as_json))
    changes, goal = _asked(base, what_if, solve, store, as_json)
    changed = _changed(base, problems, changes, store, as_json)
    if goal is None:
        raise typer.Exit(_print_comparison(base, changed, changes, store, as_json))
    raise typer.Exit(_print_solution(base, changed, what_if, goal, store, as_json))


def fit(
    model: Annotated[str, typer.Argument(help="A model spec, or the Hub repository of one.", autocompletion=model_names)],
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show on which hardware a model fits, with the largest window, how many full windows at once, and the price an hour.

    Each hardware spec is planned with a profile of the model where one is shipped for it, else with podwright's defaults. Exit
    code 1 means that the model is unknown or incomplete, or that it fits nowhere.

    Examples:

      podwright fit nemotron-nvfp4

      podwright fit kimi-linear-awq --json

      podwright fit my-model --specs ./my-specs
    """
    from compiler.planning.fitting import fits_of_model
    from compiler.planning.printing import print_fits

    store = spec_store(specs, only_specs)
    fits, problems = fits_of_model(store, model)
    if problems:
        refuse(problems, store, as_json)
    is_somewhere = any(row.fits for row in fits)
    if as_json:
        print_json({"ok": is_somewhere, "model": model, "hardware": [row.to_json() for row in fits]})
    else:
        print_fits(model, fits)
    raise typer.Exit(Exit.OK if is_somewhere else Exit.REFUSED)


def _print_plan(base: Planned, store: SpecStore, verbose: bool, as_json: bool) -> int:
    from compiler.plan import to_json
    from compiler.render.report import FindingCounts, report

    if as_json:
        print_json(to_json(base.plan) | {"ok": not base.is_refused, "findings": json_findings(base.findings, store)})
    else:
        print_findings(base.findings, store, least=Severity.INFO if verbose else Severity.WARNING)
        by = [sum(d.severity is s for d in base.findings) for s in Severity]
        print(report(base.plan, FindingCounts(*by), None, ascii_only=not unicode_output()))
        print("  " + " \\\n    ".join(command_lines(base.plan.engine.argv)))
    return Exit.REFUSED if base.is_refused else Exit.OK


def _asked(base: Planned, what_if: Sequence[str], solve: str | None, store: SpecStore, as_json: bool) -> tuple[list[Change], Goal | None]:
    """The changes and the goal that were asked for; refuses with all that is wrong with either."""
    from compiler.planning.changes import parsed_changes
    from compiler.planning.solving import parsed_goal

    changes, problems = parsed_changes(what_if, base.specs)
    goal = parsed_goal(solve) if solve is not None else None
    if isinstance(goal, Diagnostic):
        refuse([*problems, goal], store, as_json)
    if problems:
        refuse(problems, store, as_json)
    return changes, goal


def _changed(base: Planned, before: Sequence[Diagnostic], changes: Sequence[Change], store: SpecStore, as_json: bool) -> Planned:
    """The plan with the changes; refuses where the specs do not take them."""
    from compiler.planning import planned_profile
    from compiler.planning.changes import changed_store, of_command_line

    over, problems = changed_store(store, base.specs, changes)
    after, found = planned_profile(over, base.specs.name)
    if problems or after is None:
        refuse([*problems, *of_command_line(found, before, changes)], store, as_json)
    return after


def _print_comparison(base: Planned, changed: Planned, changes: Sequence[Change], store: SpecStore, as_json: bool) -> int:
    from compiler.planning.comparison import compared
    from compiler.planning.printing import print_comparison

    comparison = compared(base, changed, changes)
    if as_json:
        print_json(comparison.to_json(lambda found: json_findings(found, store)))
    else:
        print_comparison(comparison)
    return Exit.REFUSED if changed.is_refused else Exit.OK


def _print_solution(base: Planned, changed: Planned, what_if: Sequence[str], goal: Goal, store: SpecStore, as_json: bool) -> int:
    """The answer, and the plan made again with it beside the plan as it is."""
    from compiler.planning.comparison import compared
    from compiler.planning.printing import print_comparison, print_solution, solution_json
    from compiler.planning.solving import planned_with, solved

    solution = solved(store, base, changed, goal, what_if)
    answer = solution.found or solution.nearest
    after, changes = planned_with(store, base, (*what_if, *(answer.changes if answer else ())))
    comparison = compared(base, after or changed, changes)
    if as_json:
        print_json(
            comparison.to_json(lambda found: json_findings(found, store)) | solution_json(solution) | {"ok": solution.found is not None}
        )
    else:
        print_solution(solution)
        print_comparison(comparison)
    return Exit.OK if solution.found is not None else Exit.REFUSED
