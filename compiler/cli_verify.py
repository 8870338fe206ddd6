"""`podwright verify`: the engine release itself as judge of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from compiler.cli_options import Json, OnlySpecs, Profile, Specs
from compiler.command_support import spec_store, usable_specset
from compiler.load import data_root


def verify(
    profile: Profile,
    engine_python: Annotated[Path | None, typer.Option("--engine-python", metavar="PATH", help="Python of an environment that has the profile's release. Absent: one in the cache, an image in a Docker engine, or one that is made, once.", show_default=False)] = None,
    engine_image: Annotated[str | None, typer.Option("--engine-image", metavar="NAME", help="Image in a Docker engine that has the release; `profile` takes the profile's own, else the release's public one.", show_default=False)] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FOLDER", help="Folder with the checkpoint's config.json; no weights are needed.", show_default=False)] = None,
    draft_config: Annotated[Path | None, typer.Option("--draft-config", metavar="FOLDER", help="Folder with the config.json of a draft checkpoint.", show_default=False)] = None,
    config_from: Annotated[Literal["auto", "hub", "facts"], typer.Option("--config-from", help="Without --config: the Hub, the facts of the model spec, or the first of them that has one.")] = "auto",
    build: Annotated[bool, typer.Option("--build/--no-build", help="Also construct the model of every tensor-parallel rank, without memory: bytes, backends, KV cache.")] = True,
    install: Annotated[bool, typer.Option("--install/--no-install", help="Make an environment with the release where none is at hand (7.6 GB).")] = True,
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Ask the pinned engine release itself what it would do with a profile on its card, without the card and without weights.

    Exit code 0: accepted, and as planned. 1: refused, or something differs from the plan. 4: no engine or no config.json to ask with.

    Examples:

      podwright verify nemotron-ada

      podwright verify nemotron-ada --config ./checkpoint --json

      podwright verify mine --specs ./my-specs --engine-python /opt/venv/bin/python

      podwright verify nemotron-ada --engine-image profile

      podwright verify ornith-2xa40 --config-from facts --no-build
    """
    from compiler.lint.rule import Subject
    from compiler.lint.runner import apply_ignores, findings
    from compiler.resolve import resolve_plan
    from compiler.verify.command import Orders, run_verify

    _one_of_each(engine_python, engine_image, config, config_from)
    store = spec_store(specs, only_specs)
    specset = usable_specset(store, profile, as_json)
    plan = resolve_plan(specset)
    found = apply_ignores(findings(Subject(specset, plan, {}), "plan"), specset)
    orders = Orders(data_root(), engine_python, engine_image, config, draft_config, config_from, build, install)
    raise typer.Exit(run_verify(specset, plan, found, orders, as_json=as_json))


def _one_of_each(python: Path | None, image: str | None, config: Path | None, config_from: str) -> None:
    if config is not None and config_from != "auto":
        raise typer.BadParameter("is for a profile without --config", param_hint="--config-from")
    if python is not None and image is not None:
        raise typer.BadParameter("one engine is asked: give --engine-python or --engine-image", param_hint="--engine-image")
