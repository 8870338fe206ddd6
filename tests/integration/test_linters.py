"""Every shell script, ours and emitted, passes shellcheck; every emitted Dockerfile passes hadolint."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.parts import BUILD, ROOT, linter

OWN_SCRIPTS = sorted(path for path in [ROOT / ".ci" / "run", *ROOT.glob(".ci/*.sh"), *ROOT.glob("images/**/*.sh")] if path.exists())
EMITTED_SCRIPTS = sorted(BUILD.glob("**/*.sh"))
DOCKERFILES = sorted([*BUILD.glob("**/Dockerfile*"), *ROOT.glob("images/**/Dockerfile*")])
# What podwright's Dockerfiles do on purpose: packages of the base image's own distribution are not pinned (DL3008), since a
# mirror drops the old version within weeks; the wheel of a lock is pinned in the lock (DL3013).
ACCEPTED = ("DL3008", "DL3013")


def checked(program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A linter's run over one file; the test is skipped where the linter is absent."""
    found = linter(program)
    if found is None:
        pytest.skip(f"SKIPPED: no {program}; make it with .ci/linters.sh")
    return subprocess.run([str(found), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def shown(path: Path) -> str:
    """A file's name in a test's id."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


@pytest.mark.linters
@pytest.mark.parametrize("script", [*OWN_SCRIPTS, *EMITTED_SCRIPTS], ids=shown)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    done = checked("shellcheck", "--external-sources", "--source-path=SCRIPTDIR", script)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.linters
@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=shown)
def test_hadolint_has_nothing_to_say(dockerfile: Path) -> None:
    ignored = [word for rule in ACCEPTED for word in ("--ignore", rule)]
    done = checked("hadolint", *ignored, dockerfile)
    assert done.returncode == 0, done.stdout + done.stderr
