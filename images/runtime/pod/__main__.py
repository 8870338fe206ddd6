"""`python -m pod --manifest FILE check` reads a manifest; `run` starts its engine and stays with it until it ends.

Exit codes: 0 all is well; 65 the manifest is not valid; 66 it cannot be read; 69 it wants a part that this runtime version lacks,
or a secret is missing; 76 it was written for a later runtime; 126 and 127 the engine's program cannot be run or does not exist.
`run` otherwise ends with the engine's own code, or 128 + n when signal n ended it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pod.child import exit_code_of_group
from pod.contract import Manifest, ManifestError, NewerSchemaError
from pod.launch import LaunchError, LaunchPlan, launch_plan

OK, BAD_MANIFEST, NO_MANIFEST, UNAVAILABLE, NEWER_SCHEMA, NOT_EXECUTABLE, NOT_FOUND = 0, 65, 66, 69, 76, 126, 127


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one call."""
    parser = argparse.ArgumentParser(prog="python -m pod", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", required=True, type=Path, metavar="FILE", help="the manifest to work by")
    parser.add_argument("command", choices=("check", "run"), help="check: validate and print a summary. run: start the engine")
    options = parser.parse_args(arguments)
    try:
        manifest = Manifest.from_bytes(options.manifest.read_bytes())
    except OSError as error:
        return _failed(NO_MANIFEST, f"{options.manifest}: {error.strerror}")
    except NewerSchemaError as error:
        return _failed(NEWER_SCHEMA, f"{options.manifest}: {error}; build a newer image and start a new pod")
    except ManifestError as error:
        return _failed(BAD_MANIFEST, f"{options.manifest}: {error}")
    if options.command == "check":
        print(summary(manifest))
        return OK
    return _run(manifest)


def summary(manifest: Manifest) -> str:
    """What a manifest asks for, for a person: one fact a line."""
    engines = (manifest.engine, *(manifest.swap.others if manifest.swap else ()))
    follow = manifest.supervisor.follow
    lines = [f"profile    {manifest.profile} (podwright {manifest.compiler}, schema {manifest.schema_version})",
             f"sha256     {manifest.sha256()}",
             f"image      {manifest.pod.image}",
             f"gpus       {manifest.pod.gpus} x {manifest.pod.gpu_name}"]
    lines += [f"engine     {engine.name}: {engine.served_names[0]}, {engine.context_window:,} tokens, port {engine.launch.port}"
              for engine in engines]
    lines += [f"bridge     {manifest.bridge.mode}, port {manifest.bridge.port}",
              f"secrets    {', '.join(s.env for s in manifest.supervisor.secrets) or 'none'}",
              f"follows    {f'{follow.repo}/{follow.path} every {follow.poll_s:g} s' if follow else 'nothing'}"]
    return "\n".join(lines)


def _run(manifest: Manifest) -> int:
    try:
        plan = launch_plan(manifest, os.environ)
    except LaunchError as error:
        return _failed(UNAVAILABLE, str(error))
    for note in plan.notes:
        _log(note)
    _log(f"profile {manifest.profile}: engine on port {plan.port}: {' '.join(plan.argv[:3])} and {len(plan.argv) - 3} more words"
         if len(plan.argv) > 3 else f"profile {manifest.profile}: engine on port {plan.port}: {' '.join(plan.argv)}")
    return _exit_code(plan)


def _exit_code(plan: LaunchPlan) -> int:
    try:
        code = exit_code_of_group(plan.argv, plan.env, _log)
    except FileNotFoundError:
        return _failed(NOT_FOUND, f"{plan.argv[0]}: no such program in this image")
    except OSError as error:
        return _failed(NOT_EXECUTABLE, f"{plan.argv[0]}: {error.strerror}")
    _log(f"engine ended with code {code}")
    return code


def _failed(code: int, message: str) -> int:
    _log(f"error: {message}")
    return code


def _log(message: str) -> None:
    print(f"[pod] {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
