"""`podwright engine`: releases, their options, and snapshots of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.cli_options import Json, OnlySpecs, Specs
from compiler.command_support import flag_table_of, spec_store
from compiler.load import data_root

engine_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at engine releases and their flags.")


@engine_app.command("list")
def engine_list(specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False) -> None:
    """List engine releases.

    Examples:

      podwright engine list
    """
    from compiler import explaining

    explaining.print_listed(spec_store(specs, only_specs), "engines", as_json=as_json)


@engine_app.command("flag", context_settings={"ignore_unknown_options": True})
def engine_flag(
    engine: Annotated[str, typer.Argument(help="Engine spec, for instance vllm-0.27.1.")], name: Annotated[str, typer.Argument(help="An option, with or without dashes.")],
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show one option of a release as its parser has it.

    Examples:

      podwright engine flag vllm-0.27.1 kv-cache-dtype
    """
    from compiler import explaining

    raise typer.Exit(explaining.print_flag(flag_table_of(spec_store(specs, only_specs), engine), name, as_json=as_json))


@engine_app.command("diff")
def engine_diff(
    older: Annotated[str, typer.Argument(help="Engine spec.")], newer: Annotated[str, typer.Argument(help="Engine spec.")],
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show which options appeared, went or changed between two releases.

    Examples:

      podwright engine diff vllm-0.26.0 vllm-0.27.1
    """
    from compiler import explaining

    store = spec_store(specs, only_specs)
    explaining.print_flag_diff(flag_table_of(store, older), flag_table_of(store, newer), as_json=as_json)


@engine_app.command("snapshot")
def engine_snapshot(
    python: Annotated[Path, typer.Argument(help="Python of an environment that has the engine.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write; absent prints it.", show_default=False)] = None,
) -> None:
    """Record a release's options from its real parser, inside that release's own environment.

    Examples:

      podwright engine snapshot /opt/venv/bin/python --out specs/engines/flags/vllm-0.27.1.json
    """
    from compiler.deploy.snapshot import run_snapshot

    raise typer.Exit(run_snapshot(python, data_root() / "images" / "engine" / "snapshot_flags.py", out))
