"""Repairs, each of which is checked before and after. One line for each on standard output.

    python -m pod.patches apply                      what standard input lists, a `Job` as JSON; JSON lines
    python -m pod.patches packages --install SCRIPT  the distributions given as `1|NAME==VERSION` (required) or `0|...`; plain lines
    python -m pod.patches take-back                  bring back what was replaced and never served; JSON lines
    python -m pod.patches has REQUIREMENT...         is each installed in a version that it admits? prints ok, absent or the version

Exit code 0 when all is as wanted, 1 when something (that is required) is refused, 65 when the input cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pod.patches.job import Job, applied
from pod.patches.outcomes import Applied, Refused, as_line
from pod.patches.packages import Install, Package, ensure, installed_version, installer, prover, state
from pod.patches.upgrades import Upgrade, add, note_of, read, spoilt, take_back
from pod.strict_json import ShapeError, decoded, parsed

BAD_INPUT = 65


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one call."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "apply":
            return _apply(decoded(Job, parsed(sys.stdin.buffer.read())))
        if options.command == "take-back":
            return _take_back()
        if options.command == "has":
            return _has(options.requirements)
        return _packages(options.install, options.python, [_package(row) for row in options.rows])
    except (ShapeError, ValueError) as error:
        print(f"input: {error}", file=sys.stderr)
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pod.patches", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("apply", help="repair checkpoint and engine")
    commands.add_parser("take-back", help="bring back what stood before an upgrade with which the engine did not start")
    packages = commands.add_parser("packages", help="install distributions on top of the engine")
    packages.add_argument("--install", required=True, help="program that is called with PYTHON REQUIREMENT WANTED...")
    packages.add_argument("--python", default=sys.executable, help="the engine's interpreter")
    packages.add_argument("rows", nargs="*", metavar="0|1|REQUIREMENT")
    has = commands.add_parser("has", help="look for distributions")
    has.add_argument("requirements", nargs="*", metavar="REQUIREMENT")
    return parser


def _apply(job: Job) -> int:
    code = 0
    for outcome in applied(job, os.environ):
        print(as_line(outcome), flush=True)
        code = 1 if isinstance(outcome, Refused) else code
    return code


def _has(requirements: Sequence[str]) -> int:
    found = [state(requirement) for requirement in requirements]
    _say("\n".join(found))
    return 0 if all(one == "ok" for one in found) else 1


def _packages(install: str, python: str, packages: Sequence[Package]) -> int:
    env, note, wanted = _without_token(), note_of(os.environ), [package.requirement for package in packages]
    setter, proof, code = installer([install, python], wanted, env, _say), prover([python], env, _say), 0
    for package in packages:
        known = spoilt(note, package.requirement)
        if known is not None:
            _say(f"{package.requirement}: not tried again, the engine did not start with it; {known.name} {known.before} stays")
            continue
        before = installed_version(package.name)
        outcome = ensure(package, setter, proof)
        if before is not None and isinstance(outcome, Applied):
            add(note, (install, python), Upgrade(package.name, before, installed_version(package.name) or ""))
        if not isinstance(outcome, Refused):
            _say(f"{outcome.name}: {outcome.detail}")
            continue
        _say(outcome.reason)
        if package.is_required:
            code = 1
    return code


def _take_back() -> int:
    note, code = note_of(os.environ), 0
    command = read(note).installer
    setter: Install = installer(command, (), _without_token(), lambda line: None) if command else lambda requirement: "nobody noted how"
    for outcome in take_back(note, setter):
        print(as_line(outcome), flush=True)
        code = 1 if isinstance(outcome, Refused) else code
    return code


def _without_token() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}


def _package(row: str) -> Package:
    required, separator, requirement = row.partition("|")
    if not separator or required not in ("0", "1"):
        raise ValueError(f"not a row: {row!r}")
    package = Package(requirement, required == "1")
    if not package.name:
        raise ValueError(f"not a requirement: {requirement!r}")
    return package


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
