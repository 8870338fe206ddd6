"""`podwright keygen`: the key that signs what pods follow."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compiler.cli_options import Json
from compiler.command_support import Exit
from compiler.console import print_json


def keygen(
    out: Annotated[Path | None, typer.Option("--out", help="File for the key. Default: what PODWRIGHT_SIGNING_KEY names, else ~/.config/podwright/signing.key.", show_default=False)] = None,
    expires: Annotated[datetime.datetime | None, typer.Option("--expires", formats=["%Y-%m-%d"], help="Last day on which the key signs.", show_default=False)] = None,
    show: Annotated[bool, typer.Option("--show", help="Make nothing; print the public half of the key that is there.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make the key that signs publications, once, and print the public half that pods are given.

    Examples:

      podwright keygen

      podwright keygen --expires 2027-12-31 --out ~/keys/podwright-2027.key

      podwright keygen --show
    """
    from compiler.deploy.failures import DeployError
    from compiler.deploy.signing import key_path, load_key, new_key, write_key
    from compiler.resolve.pod import PUBLIC_KEY

    path = out.expanduser() if out else key_path(os.environ)
    if show and expires:
        raise typer.BadParameter("cannot change a key that is there", param_hint="--expires")
    try:
        key = load_key(path) if show else new_key(datetime.datetime.now(datetime.UTC).date(), expires.date() if expires else None)
        if not show:
            write_key(key, path)
    except DeployError as failure:
        print_json({"ok": False} | failure.to_json()) if as_json else print(failure.formatted(), file=sys.stderr)
        raise typer.Exit(Exit.FAILED) from None
    if as_json:
        print_json({"ok": True, "file": str(path), "public_key": key.public_text, "variable": PUBLIC_KEY, "created": key.created.isoformat(),
                    "expires": key.expires.isoformat() if key.expires else None})  # fmt: skip
        return
    print(f"{path}: {'signs' if show else 'made; keep a copy where you keep passwords. It signs'} {f'until {key.expires}' if key.expires else 'without an end'}")
    print(f"Pods trust it when their environment holds its public half:\n  {PUBLIC_KEY}={key.public_text}")
