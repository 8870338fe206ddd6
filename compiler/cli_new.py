"""`podwright new`: a spec to start from, or a model spec read from a checkpoint's own files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler import scaffold
from compiler.cli_options import Json
from compiler.command_support import Exit, json_findings, spec_store, write_new
from compiler.console import counted, print_findings, print_json
from compiler.diagnostics import Diagnostic, Place, Severity, stops

if TYPE_CHECKING:  # A scaffold must not wait for the network's library.
    from compiler.checkpoint import CheckpointFiles

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def new(
    kind: Annotated[str, typer.Argument(help="profile, model, hardware or engine.")],
    name: Annotated[
        str, typer.Argument(help="Name of the spec; for a model also ORG/NAME of a Hub repository, whose files are then read.")
    ],
    extends: Annotated[str | None, typer.Option("--extends", help="For a profile: the profile that it varies.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="For a model: a folder with the checkpoint, read instead of the Hub.", show_default=False)
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option("--revision", help="For ORG/NAME: a commit of the repository. Absent: where it stands now.", show_default=False),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option("--as", help="For ORG/NAME: the spec's name. Absent: the repository's own, in lower case.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--specs", help="Your folder of specs.")] = Path("podwright-specs"),
    as_json: Json = False,
) -> None:
    """Start a spec: a valid file with a comment at each key; or a model spec with what a checkpoint's own files say.

    Of a checkpoint, config.json, the tokenizer's and generation's configs and the headers of the weights are read, never weights.
    What they do not say stays out of the spec, with a comment where it belongs. A file that contradicts another is refused, and
    nothing is written.

    Examples:

      podwright new profile fast --extends nemotron-ada

      podwright new model my-model

      podwright new model Qwen/Qwen3-8B-FP8

      podwright new model ORG/NAME --from ./downloads/NAME --as mine

      podwright new hardware 2x4080

      podwright new engine vllm-0.28.0
    """
    if kind not in scaffold.KINDS:
        raise typer.BadParameter(f"one of {', '.join(scaffold.KINDS)}", param_hint="KIND")
    from_files = kind == "model" and (source is not None or _REPO.fullmatch(name) is not None)
    _refuse_misplaced(
        {
            "--from": source if kind != "model" else None,
            "--revision": revision if not from_files or source else None,
            "--as": call if not from_files else None,
        }
    )
    spec_name = call or (_own_name(name) if from_files else name)
    if not scaffold.NAME.fullmatch(spec_name):
        raise typer.BadParameter(
            "lower-case letters, digits, dots and dashes" + ("; for a model also ORG/NAME" if kind == "model" else ""), param_hint="NAME"
        )
    if extends is not None and extends not in (known := spec_store([folder] if folder.is_dir() else [], False).names("profile")):
        raise typer.BadParameter(f"no profile {extends!r}; known: {', '.join(known)}", param_hint="--extends")
    if from_files:
        raise typer.Exit(_from_checkpoint(name, spec_name, source, revision, folder, as_json))
    path, text = scaffold.new_spec(kind, spec_name, extends)
    _write(path, text, folder)
    if as_json:
        print_json({"ok": True, "file": str(folder / path), "findings": []})
    else:
        print(f"Made {folder / path}")


def _refuse_misplaced(options: Mapping[str, object]) -> None:
    """Refuse the first option that has a value where it has no use."""
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter(
                f"goes with a model that is read from {'the Hub' if option == '--revision' else 'files'}", param_hint=option
            )


def _own_name(name: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", name.rpartition("/")[2].lower())[:63]


def _write(path: str, text: str, folder: Path) -> None:
    beside = {p: t for p, t in scaffold.schema_files().items() if not (folder / p).exists()}
    write_new({path: text} | beside, folder, "NAME")


def _from_checkpoint(name: str, spec_name: str, source: Path | None, revision: str | None, folder: Path, as_json: bool) -> int:
    """Read the files, say all that is wrong, and write the spec where nothing is an error."""
    from compiler.checkpoint import checkpoint_facts, model_spec_text
    from compiler.deploy.failures import DeployError
    from compiler.load.validate import validated
    from compiler.load.yaml_text import parsed
    from compiler.schema import ModelSpec

    path = f"models/{spec_name}.yaml"
    if (folder / path).exists():
        raise typer.BadParameter(f"{folder / path} exists already. Choose another name, or remove it.", param_hint="--as")
    try:
        files, problems = _files(name, source, revision)
    except DeployError as error:
        if as_json:
            print_json({"ok": False, "file": None, "failure": error.to_json(), "findings": []})
        else:
            print(error.formatted(), file=sys.stderr)
        return Exit.FAILED
    facts, more = checkpoint_facts(files)
    problems += more
    text = model_spec_text(facts, spec_name) if facts is not None else ""
    problems += validated(ModelSpec, path, parsed(path, text)[0].data)[1] if facts is not None else []
    if facts is None or stops(problems):
        _say(problems, None, as_json)
        return Exit.REFUSED
    problems += [
        Diagnostic(
            "CKP008",
            Severity.INFO,
            f"not known from its files: {sentence}",
            "It is left open, never guessed.",
            "A comment stands where it belongs in the spec.",
            Place(str(folder / path)),
        )
        for _, sentence in facts.open
    ]
    _write(path, text, folder)
    _say(problems, folder / path, as_json)
    return Exit.OK


def _files(name: str, source: Path | None, revision: str | None) -> tuple[CheckpointFiles, list[Diagnostic]]:
    from compiler.deploy.checkpoint import folder_checkpoint, hub_checkpoint
    from compiler.deploy.hub import HubClient

    if source is not None:
        return folder_checkpoint(source, name if _REPO.fullmatch(name) else None)
    shown = sys.stderr.isatty()
    client = HubClient(on_wait=lambda text: print(text, file=sys.stderr))
    files = hub_checkpoint(client, name, revision, lambda text: print(f"\r{text}", end="", file=sys.stderr, flush=True) if shown else None)
    if shown:
        print(file=sys.stderr)
    return files


def _say(problems: list[Diagnostic], made: Path | None, as_json: bool) -> None:
    store = spec_store([], False)
    if as_json:
        print_json({"ok": made is not None, "file": str(made) if made else None, "findings": json_findings(problems, store)})
        return
    print_findings(problems, store, least=Severity.INFO)
    if made is not None:
        print(f"Made {made}")
    print(counted(problems), file=sys.stderr)
