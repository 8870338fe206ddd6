"""What the commands share: opening specs, refusing with findings, and writing files whole or not at all."""

from __future__ import annotations

import enum
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from compiler.artifact import Bundle, drift, write_text, written
from compiler.console import counted, print_findings, print_json
from compiler.diagnostics import Diagnostic, Place, located
from compiler.load import SpecStore, data_root, load_specset, logical
from compiler.load.store import missing_reference
from compiler.schema.flags import FlagTable
from compiler.schema.specset import SpecSet


class Exit(enum.IntEnum):
    """Exit codes of every command."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    DRIFTED = 3
    FAILED = 4
    INTERRUPTED = 130


def spec_store(folders: Sequence[Path], only: bool) -> SpecStore:
    """The specs of `folders`, with the shipped ones behind them unless `only`."""
    for folder in folders:
        if not folder.is_dir():
            raise typer.BadParameter(f"{folder} is not a folder", param_hint="--specs")
    if only and not folders:
        raise typer.BadParameter("needs at least one --specs folder", param_hint="--only-specs")
    return SpecStore([*folders, *([] if only else [data_root() / "specs"])])


def chosen_profiles(store: SpecStore, profiles: Sequence[str] | None, everything: bool) -> list[str]:
    """The profiles to work on, once each: those named, or every one."""
    if bool(profiles) == everything:
        raise typer.BadParameter("give profiles or --all", param_hint="PROFILES")
    chosen = list(dict.fromkeys(profiles or store.names("profile")))
    if not chosen:
        raise typer.BadParameter(f"no profile in {', '.join(map(str, store.roots))}", param_hint="--specs")
    return chosen


def own_profiles(store: SpecStore, folders: Sequence[Path]) -> list[str]:
    """Profiles in the user's own folders, or all shipped ones when there is no such folder."""
    if not folders:
        return store.names("profile")
    return SpecStore(list(folders)).names("profile")


def usable_specset(store: SpecStore, profile: str, as_json: bool) -> SpecSet:
    """The specs of a profile; refuses with all findings when they cannot be used."""
    specset, problems = load_specset(store, profile)
    if specset is None:
        refuse(problems, store, as_json)
    return specset


def refuse(problems: list[Diagnostic], store: SpecStore, as_json: bool) -> NoReturn:
    """Print findings and end with the exit code for refused specs."""
    if as_json:
        print_json({"ok": False, "findings": json_findings(problems, store)})
    else:
        print_findings(problems, store)
        print(counted(problems), file=sys.stderr)
    raise typer.Exit(Exit.REFUSED)


def flag_table_of(store: SpecStore, engine: str) -> FlagTable:
    """The flag table of an engine spec; refuses when there is none."""
    if not store.exists(logical("engine", engine)):
        refuse([missing_reference(store, "engine", engine, Place(logical("engine", engine)))], store, False)
    spec, problems = store.spec("engine", engine)
    table_, more = store.flags(spec.flags, Place(logical("engine", engine), ("flags",))) if spec else (None, [])
    if table_ is None:
        refuse([*problems, *more], store, False)
    return table_


def findings_of_all_specs(store: SpecStore, folders: Sequence[Path]) -> list[Diagnostic]:
    """Findings of all specs in the user's own folders (without one: of the shipped ones), used by a profile or not. Profiles are checked merged, elsewhere."""
    named = SpecStore(list(folders)) if folders else store
    return [d for kind in ("model", "hardware", "engine", "evidence") for name in named.names(kind) for d in store.spec(kind, name)[1]]


def json_findings(diagnostics: Sequence[Diagnostic], store: SpecStore) -> list[dict[str, object]]:
    """Findings as JSON, sorted by place."""
    return [d.to_json() for d in located(diagnostics, store)]


def command_lines(argv: Sequence[str]) -> list[str]:
    """A command line, one option a line."""
    lines = [shlex.join(argv[:3])]
    for word in argv[3:]:
        if word.startswith("--"):
            lines.append(shlex.quote(word))
        else:
            lines[-1] += " " + shlex.quote(word)
    return lines


def write_bundle(bundle: Bundle, folder: Path, check: bool) -> list[str]:
    """Write a bundle (or, with `check`, only compare); the paths that differed from what was on disk."""
    differing = drift(bundle, folder)
    if not check:
        written(bundle, folder)
    return differing


def write_generated(bundle: Bundle, folder: Path, check: bool) -> int:
    """Write generated files into a folder that may hold others (or, with `check`, complain about those that are not current)."""
    stale = _stale({a.path: a.text for a in bundle.artifacts}, folder)
    for path, text in stale.items():
        if check:
            print(f"{folder / path} is not current; run the command without --check.", file=sys.stderr)
        else:
            write_text(folder / path, text)
    if not check:
        print(f"{len(bundle.artifacts)} files in {folder}, {len(stale)} changed")
    return Exit.DRIFTED if check and stale else Exit.OK


def write_pages(pages: Mapping[str, str], root_folder: Path, check: bool) -> int:
    """Write generated pages below a checkout (or, with `check`, complain about those that are not current)."""
    stale = _stale(pages, root_folder)
    for path, text in stale.items():
        if check:
            print(f"{path} is not current; run `make docs`.", file=sys.stderr)
        else:
            write_text(root_folder / path, text)
    if not check:
        print(f"{len(pages)} pages, {len(stale)} changed")
    return Exit.DRIFTED if check and stale else Exit.OK


def _stale(texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Those texts that the folder's files do not hold."""
    return {path: texts[path] for path in sorted(texts) if not (folder / path).is_file() or (folder / path).read_bytes() != texts[path].encode()}


def write_new(files: Mapping[str, str], folder: Path, hint: str, cure: str = "Choose another name, or remove it.") -> None:
    """Write files that must not exist yet: nothing of the user's is overwritten. `hint` is the argument that decides what they are called."""
    existing = [path for path in files if (folder / path).exists() or (folder / path).is_symlink()]
    if existing:
        raise typer.BadParameter(f"{folder / existing[0]} exists already. {cure}", param_hint=hint)
    for path, text in files.items():
        write_text(folder / path, text)
