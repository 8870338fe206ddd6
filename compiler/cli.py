"""The `podwright` command: arguments to a pipeline or deploy call; diagnostics to text, JSON and an exit code.

Heavy libraries are imported inside the commands that need them: a build must not wait for the Docker SDK.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from compiler import __version__
from compiler.artifact import written
from compiler.cli_bridge import bridge
from compiler.cli_connect import connect
from compiler.cli_deploy import Transport
from compiler.cli_deploy import register as register_deploy
from compiler.cli_engine import engine_app
from compiler.cli_evidence import evidence_app
from compiler.cli_explain import explain
from compiler.cli_keys import keygen
from compiler.cli_lint import import_command, lint
from compiler.cli_local import local
from compiler.cli_new import new
from compiler.cli_options import Json, OnlySpecs, Out, Profile, Specs, Strict, Verbose, profile_names
from compiler.cli_plan import register as register_plan
from compiler.cli_publish import register as register_publish
from compiler.cli_verify import verify
from compiler.command_support import (
    Exit,
    chosen_profiles,
    json_findings,
    refuse,
    spec_store,
    usable_specset,
    write_bundle,
    write_generated,
    write_new,
    write_pages,
)
from compiler.console import counted, print_findings, print_json, tolerant_streams, unicode_output
from compiler.diagnostics import Severity, printable, stops
from compiler.load import data_root, image_files, load_specset
from compiler.load.store import is_name

EXIT_CODES = """Exit codes: 0 fine; 1 a finding is an error (or, with --strict, a warning), or a deploy has reasons against it; 2 wrong usage; 3 `build --check` found drift;
4 the machine or the provider stood in the way (disk, Docker, network, a pod that does not serve); 130 interrupted."""

app = typer.Typer(name="podwright", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, help=f"Compile short YAML specs into GPU pods that serve an open model.\n\n{EXIT_CODES}")
app.add_typer(engine_app, name="engine")
app.add_typer(evidence_app, name="evidence")
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)(bridge)
app.command()(keygen)
app.command()(explain)
app.command()(lint)
app.command("import")(import_command)
app.command()(local)
app.command()(new)
app.command()(connect)
app.command()(verify)
register_plan(app)
register_deploy(app)
register_publish(app)



@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Options before the command."""
    if version:
        print(f"podwright {__version__}")
        raise typer.Exit(Exit.OK)


@app.command()
def build(
    profiles: Annotated[list[str] | None, typer.Argument(help="Profiles to build.", autocompletion=profile_names, show_default=False)] = None,
    all_profiles: Annotated[bool, typer.Option("--all", help="Build every profile.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when a bundle on disk differs.")] = False,
    api: Annotated[Literal["v2", "v1"], typer.Option("--api", help="RunPod API of the request bodies.")] = "v2",
    out: Out = Path("build"), specs: Specs = [], only_specs: OnlySpecs = False, strict: Strict = False, verbose: Verbose = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Validate, plan and compile profiles into bundles.

    Examples:

      podwright build nemotron-ada

      podwright build --all --out /tmp/bundles

      podwright build nemotron-ada --check

      podwright build mine --specs ./my-specs --json
    """
    from compiler.pipeline import compiled
    from compiler.render.report import FindingCounts, report
    from compiler.targets.base import TargetOptions

    store = spec_store(specs, only_specs)
    files, code, results = image_files(data_root()), Exit.OK, []
    for name in chosen_profiles(store, profiles, all_profiles):
        specset, problems = load_specset(store, name)
        result = compiled(specset, files, TargetOptions(api)) if specset is not None else None
        found, bundle = [*problems, *(result.diagnostics if result else ())], result.bundle if result else None
        is_refused = bundle is None or stops(found, strict)
        differing = [] if bundle is None or is_refused else write_bundle(bundle, out / name, check)
        code = max(code, Exit.REFUSED if is_refused else Exit.DRIFTED if check and differing else Exit.OK)
        results.append({"profile": name, "folder": str(out / name), "ok": not is_refused and not (check and differing), "changed": differing, "findings": json_findings(found, store)})
        if as_json:
            continue
        print_findings(found, store, least=Severity.INFO if verbose else Severity.WARNING)
        if is_refused or result is None:
            kept = f" The bundle in {out / name} is as it was." if is_name(name) and (out / name).exists() else ""
            print(printable(f"{name}: refused, {counted(found)}.{kept}"), file=sys.stderr)
            continue
        drifted = f"{out / name} differs from these specs: {', '.join(differing)}" if check and differing else str(out / name)
        print(report(result.plan, FindingCounts(*(sum(d.severity is s for d in found) for s in Severity)), drifted, ascii_only=not unicode_output()))
    if as_json:
        print_json({"ok": code == Exit.OK, "bundles": results})
    raise typer.Exit(code)


@app.command("list")
def list_specs(
    kind: Annotated[str, typer.Argument(help="profiles, models, hardware, engines, evidence or rules.")] = "profiles",
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """List profiles, models, hardware, engines, evidence topics or rules.

    Examples:

      podwright list

      podwright list hardware --json
    """
    from compiler import explaining

    explaining.print_listed(spec_store(specs, only_specs), kind, as_json=as_json)


@app.command()
def schema(
    kind: Annotated[str | None, typer.Argument(help="model, hardware, engine, profile, evidence or lock. Absent: all, written to --out.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the schemas.")] = Path("specs/schemas"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when a schema on disk differs.")] = False,
) -> None:
    """Print the JSON Schema of one kind of spec, or write them all for editors to complete and check specs.

    Examples:

      podwright schema profile

      podwright schema --out my-specs/schemas
    """
    from compiler import schemas

    if kind is not None:
        if kind not in schemas.KINDS_WITH_SCHEMA:
            raise typer.BadParameter(f"one of {', '.join(schemas.KINDS_WITH_SCHEMA)}", param_hint="KIND")
        print_json(schemas.json_schema(kind))
        return
    raise typer.Exit(write_generated(schemas.schema_bundle(), out, check))


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="Folder to make.")] = Path("podwright-specs")) -> None:
    """Make a folder for your own specs: one commented profile to start from, and schemas for the editor.

    Examples:

      podwright init my-specs

      podwright build my-first --specs my-specs
    """
    from compiler import scaffold

    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{folder} is a file", param_hint="FOLDER")
    write_new(scaffold.starting_files(), folder, "FOLDER", "Choose another folder, or go on with that one.")
    print(f"Made {folder}. Next: podwright build my-first --specs {folder}")


@app.command()
def lock(profile: Profile, specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False) -> None:
    """Resolve commits, image digests and file sizes on the Hub and at registries, and keep them in specs/locks.

    Examples:

      podwright lock nemotron-ada

      podwright lock mine --specs ./my-specs
    """
    from compiler.deploy.command import run_lock

    store = spec_store(specs, only_specs)
    raise typer.Exit(run_lock(usable_specset(store, profile, as_json), store.roots[0], as_json=as_json))


@app.command()
def image(
    profile: Profile, out: Out = Path("build"), tag: Annotated[str | None, typer.Option("--tag", help="Tag instead of the plan's.")] = None,
    network: Annotated[str | None, typer.Option("--network", help="Network of the build's containers, for instance host.")] = None,
    base: Annotated[str | None, typer.Option("--base", help="An image to start from instead of the profile's base, such as a mirror's.", show_default=False)] = None,
    push: Annotated[str | None, typer.Option("--push", help="Send it to a registry under this name, and keep its digest in the lock.", show_default=False)] = None,
    via: Annotated[Literal["docker", "hf-space"], typer.Option("--via", help="Who builds: a Docker engine, or a Docker Space of the Hugging Face Hub.")] = "docker",
    space: Annotated[str | None, typer.Option("--space", help="With --via hf-space: the Space. Absent: podwright-PROFILE of the token's account.", show_default=False)] = None,
    transport: Transport = "v2",
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Build the profile's container image with a Docker engine, from the bundle that `build` writes first.

    Examples:

      podwright image nemotron-ada

      podwright image tiny-cpu --tag me/tiny:1

      podwright image nemotron-ada --push ghcr.io/me/pod

      podwright image nemotron-ada --via hf-space
    """
    from compiler.deploy.command import Push, run_image, run_space_image
    from compiler.pipeline import compiled

    if via == "hf-space" and (tag or network or base or push):
        raise typer.BadParameter("is for --via docker alone", param_hint=next(n for n, v in {"--tag": tag, "--network": network, "--base": base, "--push": push}.items() if v))
    if via == "docker" and space:
        raise typer.BadParameter("is for --via hf-space alone", param_hint="--space")
    store = spec_store(specs, only_specs)
    specset = usable_specset(store, profile, as_json)
    result = compiled(specset, image_files(data_root()))
    if result.bundle is None:
        refuse(list(result.diagnostics), store, as_json)
    written(result.bundle, out / profile)
    if via == "hf-space":
        raise typer.Exit(run_space_image(result.plan, out / profile, space, Push("", specset, store.roots[0]), transport=transport, as_json=as_json))
    wanted = Push(push, specset, store.roots[0]) if push else None
    raise typer.Exit(run_image(result.plan, out / profile, tag=tag, network=network, as_json=as_json, base=base, push=wanted))


@app.command()
def docs(
    out: Annotated[Path, typer.Option("--out", help="Root of the checkout.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when a page differs.")] = False,
) -> None:
    """Write the generated pages: spec fields, rules, exit codes, what meets which trap, and the README's tables.

    Examples:

      podwright docs --check
    """
    from compiler import coverage, documents

    store = spec_store([], False)
    pages = documents.pages(store, (out / "README.md").read_text("utf-8")) | coverage.pages(data_root())
    raise typer.Exit(write_pages(pages, out, check))


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point: run the command, and turn what the machine refuses into a message and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    tolerant_streams()
    try:
        _run(argv)
    except KeyboardInterrupt:
        print("podwright: interrupted; bundles on disk are as they were.", file=sys.stderr)
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:  # Whoever read our output has closed it; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(Exit.FAILED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"podwright: {where}{error.strerror or error}\n  why: the machine refused it; bundles on disk are as they were.\n  fix: free space, change permissions, or choose another folder (--out, --specs).", file=sys.stderr)
        sys.exit(Exit.FAILED)


def _run(argv: Sequence[str] | None) -> None:
    """Run the command. typer ends the program itself and hides interruptions and closed pipes in exit codes: they come out here."""
    stdout = sys.stdout
    try:
        app(args=list(argv) if argv is not None else None, standalone_mode=True)
    except SystemExit as end:
        if end.code == Exit.INTERRUPTED:
            raise KeyboardInterrupt from end
        if sys.stdout is not stdout:
            sys.stdout = stdout
            raise BrokenPipeError from end
        stdout.flush()
        raise


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
