"""`podwright lint` and `podwright import`: what is wrong with specs, and with commands of people who have none."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compiler.artifact import write_text
from compiler.cli_options import Json, OnlySpecs, Specs, Strict, Verbose, profile_names
from compiler.command_support import Exit, findings_of_all_specs, json_findings, own_profiles, spec_store, write_new
from compiler.console import counted, print_findings, print_json
from compiler.diagnostics import Diagnostic, Severity, stops
from compiler.load import SpecStore, data_root, image_files, load_specset

if TYPE_CHECKING:  # A build must not wait for what reads other people's commands.
    from compiler.foreign.judge import Judged
    from compiler.foreign.launch import Launch
    from compiler.foreign.reading import Read

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,50}")  # Short enough for `-hardware` behind it.

Command = Annotated[str | None, typer.Option("--command", help="A command that starts vLLM, as you would type it.", show_default=False)]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="PATH",
        help="A shell script, a Docker Compose file, a Kubernetes manifest or a folder of them, or values of the vLLM production stack.",
        show_default=False,
    ),
]
Hardware = Annotated[
    str | None,
    typer.Option(
        "--hardware", help="The card that a command runs on, as a hardware spec names it (podwright list hardware).", show_default=False
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", help="The release that a command runs, as an engine spec names it. Absent: by the image's tag.", show_default=False
    ),
]


def lint(
    profiles: Annotated[list[str] | None, typer.Argument(help="Profiles to check; none checks all.", autocompletion=profile_names, show_default=False)] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Make the changes that need no judgement, and show them.")] = False,
    command: Command = None, file: File = None, hardware: Hardware = None, engine: Engine = None,
    specs: Specs = [], only_specs: OnlySpecs = False, strict: Strict = False, verbose: Verbose = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Say all that is wrong with profiles and the specs that they use; or with a command, a Compose file or a manifest.

    Without a profile, every shipped spec is checked, also those that no profile uses; with --specs, those of your own folders.

    Examples:

      podwright lint

      podwright lint nemotron-ada -v

      podwright lint --specs ./my-specs --fix

      podwright lint --command "vllm serve ORG/MODEL --max-model-len 131072" --hardware a40

      podwright lint --file docker-compose.yaml --hardware 2x4090

      podwright lint --file ./manifests
    """
    if command is not None or file is not None:
        if profiles or fix:
            raise typer.BadParameter("is for specs; a command or a file is only looked at", param_hint="--fix" if fix else "PROFILES")
        store = spec_store(specs, only_specs)
        card, release = _named(store, "hardware", hardware), _named(store, "engine", engine)
        raise typer.Exit(_judge(_read(command, file), store, card, release, strict, verbose, as_json))
    if hardware is not None or engine is not None:
        raise typer.BadParameter("goes with --command or --file; a profile names its own", param_hint="--hardware" if hardware else "--engine")
    store = spec_store(specs, only_specs)
    chosen = profiles or own_profiles(store, specs)
    found = _finder(profiles, chosen, specs)
    changes: dict[Path, tuple[str, str]] = {}
    if fix:
        from compiler.fixing import fixed

        store, diagnostics, changes = fixed(found, store.roots)
    else:
        diagnostics = found(store)
    raise typer.Exit(_print_lint(store, diagnostics, changes, len(chosen), fix, strict, verbose, as_json))


def import_command(
    name: Annotated[str, typer.Option("--name", help="Name of the profile to write.")],
    command: Command = None, file: File = None,
    service: Annotated[str | None, typer.Option("--service", help="The service or container, where the file starts several engines.", show_default=False)] = None,
    hardware: Hardware = None, engine: Engine = None,
    folder: Annotated[Path, typer.Option("--specs", help="Your folder of specs.")] = Path("podwright-specs"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite specs of these names.")] = False,
    verbose: Verbose = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Turn a command, a Compose service or a container of a manifest into specs, and lint them.

    Every option is kept. A model or a card that no spec describes gets a stub, and a finding says so. The exit code is that of the lint.

    Examples:

      podwright import --command "vllm serve ORG/MODEL --max-model-len 131072" --name mine --hardware a40

      podwright import --file docker-compose.yaml --service vllm --name mine
    """
    from compiler.foreign.specs import described
    from compiler.foreign.writing import imported
    from compiler.scaffold import schema_files

    if not _NAME.fullmatch(name):
        raise typer.BadParameter("lower-case letters, digits, dots and dashes, at most 51", param_hint="--name")
    store = spec_store([folder] if folder.is_dir() else [], False)
    read = _read(command, file)
    launch = _one(read, service)
    known = described(launch, store, _named(store, "hardware", hardware), _named(store, "engine", engine)) if launch is not None else None
    before = [*read.problems, *(known.problems if known is not None else ())]
    if known is None:
        _report(before, store, as_json, Severity.INFO, {"files": []})
        raise typer.Exit(Exit.REFUSED)
    result = imported(known, name)
    _write(result.files, folder, force, {p: t for p, t in schema_files().items() if not (folder / p).exists()})
    store = spec_store([folder], False)
    diagnostics = [*before, *result.findings, *_finder([name], [name], [folder])(store)]
    _report(diagnostics, store, as_json, Severity.INFO if verbose else Severity.WARNING, {"files": [str(folder / p) for p in result.files]})
    raise typer.Exit(Exit.REFUSED if stops(diagnostics) else Exit.OK)


def _finder(profiles: Sequence[str] | None, chosen: Sequence[str], specs: Sequence[Path]) -> Callable[[SpecStore], list[Diagnostic]]:
    """What lints the chosen profiles, and, where none was named, every other spec: each finding once."""
    from compiler.pipeline import compiled

    files = image_files(data_root())

    def found(store: SpecStore) -> list[Diagnostic]:
        seen: dict[Any, Diagnostic] = {}
        for name in chosen:
            specset, problems = load_specset(store, name)
            for d in [*problems, *(compiled(specset, files).diagnostics if specset else ())]:
                seen[d.code, d.place, d.position, d.what] = d
        for d in [] if profiles else findings_of_all_specs(store, specs):
            seen[d.code, d.place, d.position, d.what] = d
        return list(seen.values())

    return found


def _print_lint(
    store: SpecStore,
    diagnostics: list[Diagnostic],
    changes: dict[Path, tuple[str, str]],
    count: int,
    fix: bool,
    strict: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    from compiler.fixing import diff

    code = Exit.REFUSED if stops(diagnostics, strict) else Exit.OK
    shown = {file: diff(file, before, after) for file, (before, after) in sorted(changes.items())}
    if as_json:
        fixed = {"fixed": [{"file": str(file), "diff": text} for file, text in shown.items()]} if fix else {}
        print_json({"ok": code == Exit.OK, "findings": json_findings(diagnostics, store), **fixed})
        return code
    for text in shown.values():
        print(text)
    print_findings(diagnostics, store, least=Severity.INFO if verbose else Severity.WARNING)
    mended = f"; {len(shown)} file{'s' if len(shown) != 1 else ''} changed" if fix else ""
    print(f"{counted(diagnostics)} in {count} profile{'s' if count != 1 else ''}{mended}")
    return code


def _judge(read: Read, store: SpecStore, hardware: str | None, engine: str | None, strict: bool, verbose: bool, as_json: bool) -> int:
    """Judge each launch that was read, and print."""
    from compiler.foreign.judge import judged, not_judged
    from compiler.foreign.specs import described

    results = [judged(described(launch, store, hardware, engine)) for launch in read.launches]
    diagnostics = list(dict.fromkeys([*read.problems, *(d for result in results for d in result.diagnostics)]))
    code = Exit.REFUSED if stops(diagnostics, strict) else Exit.OK
    if as_json:
        print_json(
            {"ok": code == Exit.OK, "findings": json_findings(diagnostics, store), "launches": [_json(result) for result in results]}
        )
        return code
    print_findings(diagnostics, store, least=Severity.INFO if verbose else Severity.WARNING)
    for result in results:
        d = result.described
        print(
            f"{d.launch.name or 'command'}: {d.release.said}; model {d.model or 'not known here'}; card {d.hardware or 'not known'}; {result.looked} rules judged"
        )
        line = not_judged(result, codes=verbose)
        if line is not None:
            print(line)
    print(counted(diagnostics))
    return code


def _json(result: Judged) -> dict[str, object]:
    """One launch, and what it was judged with."""
    d = result.described
    return {
        "name": d.launch.name, "release": d.release.engine.release, "release_from": d.release.said, "model": d.model, "hardware": d.hardware,
        "judged": result.looked, "not_judged": {fact: list(codes) for fact, codes in result.unjudged.items()},
    }  # fmt: skip


def _read(command: str | None, file: Path | None) -> Read:
    if (command is None) == (file is None):
        raise typer.BadParameter("give one of --command and --file", param_hint="--command")
    from compiler.foreign.reading import read_command, read_file

    return read_command(command) if command is not None else read_file(file or Path())


def _named(store: SpecStore, kind: str, name: str | None) -> str | None:
    """The name, where a usable spec has it."""
    if name is None:
        return None
    if name not in store.names(kind):
        known = store.names(kind)
        near = [n for n in known if name in n] or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        meant = f" Did you mean {' or '.join(near[:3])}?" if near else ""
        more = f"`podwright new {kind} {name}` starts one" if _NAME.fullmatch(name) else "`podwright new` starts one"
        raise typer.BadParameter(f"no {kind} spec {name!r}.{meant} Known: {', '.join(known)}; {more}", param_hint=f"--{kind}")
    if store.spec(kind, name)[0] is None:
        raise typer.BadParameter(f"the {kind} spec {name!r} cannot be used; `podwright lint` says why", param_hint=f"--{kind}")
    return name


def _one(read: Read, service: str | None) -> Launch | None:
    """The launch to import: the only one, or the one that is named."""
    if service is not None:
        named = [launch for launch in read.launches if launch.name == service]
        if len(named) != 1 and read.launches:
            raise typer.BadParameter(
                f"starts no engine; these do: {', '.join(launch.name or '(a plain command)' for launch in read.launches)}",
                param_hint="--service",
            )
        return named[0] if named else None
    if len(read.launches) > 1:
        names = [launch.name for launch in read.launches]
        hint = f"one of {', '.join(names)}" if all(names) else "and give the one to import with --command"
        raise typer.BadParameter(f"{len(names)} engines are started here; name {hint}", param_hint="--service")
    return read.launches[0] if read.launches else None


def _write(files: dict[str, str] | Any, folder: Path, force: bool, schemas: dict[str, str]) -> None:
    if not force:
        write_new({**files, **schemas}, folder, "--name", "Choose another name; --force overwrites.")
        return
    for path, text in {**files, **schemas}.items():
        write_text(folder / path, text)


def _report(diagnostics: list[Diagnostic], store: SpecStore, as_json: bool, least: Severity, more: dict[str, list[str]]) -> None:
    if as_json:
        print_json({"ok": not stops(diagnostics), **more, "findings": json_findings(diagnostics, store)})
        return
    print_findings(diagnostics, store, least=least)
    for path in more["files"]:
        print(f"Made {path}")
    print(counted(diagnostics), file=sys.stderr)
