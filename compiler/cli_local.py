"""`podwright local`: a profile served on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.cli_options import Json, OnlySpecs, Out, Profile, Specs
from compiler.command_support import refuse, spec_store, usable_specset


def local(
    profile: Profile = "tiny-cpu",
    docker: Annotated[bool, typer.Option("--docker", help="Build the image with this machine's Docker engine and run that, instead of installing the engine.")] = False,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of the endpoint. Absent: the profile's, or the next free one.", show_default=False)] = None,
    python: Annotated[str | None, typer.Option("--python", help="Python for the engine's environment. Absent: one of the version that the lock is for, if there is any.", show_default=False)] = None,
    network: Annotated[str | None, typer.Option("--network", help="With --docker: network of the build and the container, for instance host.", show_default=False)] = None,
    base: Annotated[str | None, typer.Option("--base", help="With --docker: an image to start from instead of the profile's base, such as a mirror's.", show_default=False)] = None,
    out: Out = Path("build"), specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Serve a profile on this machine, on loopback, until Ctrl-C: the same bundle, bootstrap and runtime as in a pod.

    Needs no GPU and no account. The engine's environment is made once (some minutes, about 6 GB) and kept in the cache. With
    --json one document says how to connect as soon as the endpoint serves; progress is told on stderr.

    Examples:

      podwright local tiny-cpu

      podwright local tiny-cpu --port 9000 --json

      podwright local tiny-cpu --docker
    """
    from compiler.artifact import written
    from compiler.deploy.local.command import Orders, run_local
    from compiler.load import data_root, image_files
    from compiler.pipeline import compiled

    if not docker and (network or base):
        raise typer.BadParameter("only with --docker", param_hint="--network" if network else "--base")
    store = spec_store(specs, only_specs)
    result = compiled(usable_specset(store, profile, as_json), image_files(data_root()))
    if result.bundle is None:
        refuse(list(result.diagnostics), store, as_json)
    written(result.bundle, out / profile)
    raise typer.Exit(run_local(result.plan, out, Orders(docker, port, python, network, base, as_json)))
