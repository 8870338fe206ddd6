"""Python distributions on top of the engine, at the versions that a profile names, with automatic return.

A newer transformers can make a model known, or keep the engine from importing at all. So after each installation the engine's
own imports are tried; where they fail, the version that was there comes back. Each distribution stands by itself: one that
fails does not keep the next from being tried.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused

# Bounds one installation: a wheel of some hundred megabytes over a slow line.
INSTALL_S = 1800.0
# Bounds the imports that prove it; transformers takes 5 s on an idle core.
PROVE_S = 180.0
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(.*)$")
# What every engine imports and what most upgrades break: it looks at the versions of a dozen others while it is imported.
_PROOF = (
    "import importlib.util as u\nif u.find_spec('transformers'): import transformers; transformers.AutoConfig, transformers.AutoTokenizer"
)

Install = Callable[[str], str]
Prove = Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Package:
    """A distribution with its version. `is_required`: the profile cannot serve without it."""

    requirement: str
    is_required: bool

    @property
    def name(self) -> str:
        """The bare name. Raises ValueError when this is no requirement."""
        match = _REQUIREMENT.match(self.requirement)
        if match is None:
            raise ValueError(f"not a requirement: {self.requirement!r}")
        return match[1]


def state(requirement: str, version: Callable[[str], str | None] | None = None) -> str:
    """`ok`, `absent`, or the version that is there and not admitted. Metadata only: importing an engine fails where no GPU is.

    The distributions of extras are not looked at. Raises ValueError for what is no requirement.
    """
    match = _REQUIREMENT.match(requirement)
    if match is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    found = (version or installed_version)(match[1])
    if found is None:
        return "absent"
    return "ok" if _admits(match[2].split(";")[0].strip(), found) else found


def ensure(package: Package, install: Install, prove: Prove, version: Callable[[str], str | None] | None = None) -> Outcome:
    """Install what is missing or of another version. `install` and `prove` give the empty text, or what went wrong."""
    version = version or installed_version
    before = state(package.requirement, version)
    if before == "ok":
        return AlreadyThere(package.requirement, "installed")
    problem = install(package.requirement)
    if not problem and state(package.requirement, version) != "ok":
        problem = f"{version(package.name) or 'nothing'} is there afterwards"
    if not problem:
        broken = prove()
        if not broken:
            return Applied(package.requirement, "installed" if before == "absent" else f"installed in place of {before}")
        problem = f"the engine's imports fail with it: {broken}"
    return Refused(
        package.requirement,
        f"{package.requirement} cannot be installed: {problem}; {_returned(package, before, install, prove, version)}",
        "bake it into the image (container.extras), or remove what needs it",
    )


def _returned(package: Package, before: str, install: Install, prove: Prove, version: Callable[[str], str | None]) -> str:
    """Bring back what was there; says how that went."""
    now = version(package.name)
    if before == "absent":
        return "there was none before" if now is None else f"{now} stays, as there was none before"
    if now != before:
        problem = install(f"{package.name}=={before}") or prove()
        return f"{before} is back" if not problem else f"and {before} could not be brought back: {problem}"
    return f"{before} stays"


def installed_version(name: str) -> str | None:
    """The version of an installed distribution; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def installer(command: Sequence[str], wanted: Sequence[str], env: Mapping[str, str], tell: Callable[[str], None]) -> Install:
    """`command REQUIREMENT WANTED...` as an `Install`: everything but the wanted is held at its version."""

    def install(requirement: str) -> str:
        return _last_line([*command, requirement, *wanted], env, INSTALL_S, tell)

    return install


def prover(python: Sequence[str], env: Mapping[str, str], tell: Callable[[str], None]) -> Prove:
    """The engine's imports in a process of their own, so that this one never holds the version before."""
    return lambda: _last_line([*python, "-c", _PROOF], env, PROVE_S, tell)


def _last_line(command: Sequence[str], env: Mapping[str, str], limit_s: float, tell: Callable[[str], None]) -> str:
    try:
        done = subprocess.run(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {limit_s:.0f} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    for line in lines:
        tell(line)
    return "" if done.returncode == 0 else (lines[-1][:240] if lines else f"code {done.returncode}")


def _admits(specifier: str, version: str) -> bool:
    if not specifier:
        return True
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return specifier.startswith("==") and specifier.removeprefix("==").strip() == version.split("+")[0]
    return SpecifierSet(specifier).contains(version, prereleases=True)
