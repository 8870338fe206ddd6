"""Distributions on top of the engine, in a real virtual environment's layout: installed, proved, returned."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import packaging as packaging_package
import pytest
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused
from pod.patches.packages import Package, ensure, state

RUNTIME = Path(__file__).resolve().parents[4] / "images/runtime"
UPGRADE = Package("transformers==5.16.1", True)


class Site:
    """What is installed, by name. `broken` versions do not import; `refused` requirements cannot be installed."""

    def __init__(self, **installed: str) -> None:
        self.installed, self.asked = dict(installed), list[str]()
        self.broken: set[str] = set()
        self.refused: set[str] = set()

    def install(self, requirement: str) -> str:
        self.asked.append(requirement)
        if requirement in self.refused:
            return f"no matching distribution for {requirement}"
        name, _, version = requirement.partition("==")
        self.installed[name] = version
        return ""

    def prove(self) -> str:
        return "ImportError: broken" if self.broken & set(self.installed.values()) else ""

    def ensure(self, package: Package = UPGRADE) -> Outcome:
        return ensure(package, self.install, self.prove, self.installed.get)


def test_what_is_there_is_left_alone() -> None:
    site = Site(transformers="5.16.1")
    assert isinstance(site.ensure(), AlreadyThere) and site.asked == []


def test_an_upgrade() -> None:
    site = Site(transformers="5.15.1")
    assert site.ensure() == Applied("transformers==5.16.1", "installed in place of 5.15.1")
    assert isinstance(site.ensure(), AlreadyThere)


def test_an_upgrade_that_does_not_import_goes_back() -> None:
    site = Site(transformers="5.15.1")
    site.broken = {"5.16.1"}
    outcome = site.ensure()
    assert isinstance(outcome, Refused) and outcome.reason.endswith(
        "the engine's imports fail with it: ImportError: broken; 5.15.1 is back"
    )
    assert site.installed == {"transformers": "5.15.1"} and site.asked == ["transformers==5.16.1", "transformers==5.15.1"]


def test_an_upgrade_that_cannot_be_installed_changes_nothing() -> None:
    site = Site(transformers="5.15.1")
    site.refused = {"transformers==5.16.1"}
    outcome = site.ensure()
    assert isinstance(outcome, Refused) and outcome.reason.endswith("no matching distribution for transformers==5.16.1; 5.15.1 stays")


def test_a_return_that_fails_is_said() -> None:
    site = Site(transformers="5.15.1")
    site.broken, site.refused = {"5.16.1"}, {"transformers==5.15.1"}
    outcome = site.ensure()
    assert isinstance(outcome, Refused) and "5.15.1 could not be brought back: no matching distribution" in outcome.reason


def test_an_installer_that_claims_what_it_did_not_do() -> None:
    site = Site(transformers="5.15.1")
    outcome = ensure(UPGRADE, lambda requirement: "", site.prove, site.installed.get)
    assert isinstance(outcome, Refused) and "5.15.1 is there afterwards; 5.15.1 stays" in outcome.reason


def test_something_new_that_breaks_the_imports_is_named() -> None:
    site = Site()
    site.broken = {"5.16.1"}
    outcome = site.ensure()
    assert isinstance(outcome, Refused) and outcome.reason.endswith("5.16.1 stays, as there was none before")


@pytest.mark.parametrize(("requirement", "version", "found"), [
    ("x==1.0", "1.0", "ok"), ("x[a,b]==1.0", "1.0", "ok"), ("x==1.0", "1.1", "1.1"), ("x>=0.2.0", "0.3.5", "ok"),
    ("x>=0.2.0,<0.3", "0.3.5", "0.3.5"), ("x", "9", "ok"), ("x==1.0", None, "absent"), ("x==1.0", "1.0+cpu", "ok"),
    ("x>=1; python_version > '3'", "2", "ok"), ("x>=2", "2.0rc1", "2.0rc1"),
])  # fmt: skip
def test_states(requirement: str, version: str | None, found: str) -> None:
    assert state(requirement, lambda name: version) == found


@pytest.fixture
def pod(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`python -m pod.patches` with a site of its own and an installer that copies from a folder of wheels, unpacked."""
    site, wheels, install = tmp_path / "site", tmp_path / "wheels", tmp_path / "install.sh"
    for name, version, text in [("transformers", "5.15.1", "AutoConfig = AutoTokenizer = 1\n"),
                                ("transformers", "5.16.1", "raise ImportError('needs torch 3')\n"),
                                ("transformers", "5.17.0", "AutoConfig = AutoTokenizer = 2\n"), ("xxhash", "4.1.0", "")]:  # fmt: skip
        folder = wheels / f"{name}=={version}"
        (folder / f"{name}-{version}.dist-info").mkdir(parents=True)
        (folder / f"{name}-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / f"{name}.py").write_text(text)
    shutil.copytree(wheels / "transformers==5.15.1", site)
    install.write_text(
        f'#!/bin/bash\n[ -d "{wheels}/$2" ] || {{ echo "no matching distribution for $2"; exit 1; }}\n'
        f'rm -rf "{site}/${{2%%==*}}"*\ncp -r "{wheels}/$2/." "{site}/"\necho "installed $2"\n'
    )
    install.chmod(0o755)
    packaging = str(Path(packaging_package.__file__ or "").parents[1])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{site}:{RUNTIME}:{packaging}", "HF_TOKEN": "hf_secret"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["packages", "--install", str(install), *words] if words[0] != "has" else list(words)
        return subprocess.run([sys.executable, "-S", "-m", "pod.patches", *command], env=env, capture_output=True, text=True, check=False)

    return run


def test_the_command_installs_and_returns_for_real(pod: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert pod("has", "transformers==5.15.1").stdout == "ok\n"
    broken = pod("1|transformers==5.16.1", "0|xxhash==4.1.0")
    assert broken.returncode == 1 and "needs torch 3; 5.15.1 is back" in broken.stdout, broken.stdout + broken.stderr
    assert "xxhash==4.1.0: installed" in broken.stdout
    assert pod("has", "transformers==5.15.1").stdout == "ok\n" and pod("has", "xxhash").returncode == 0
    good = pod("1|transformers==5.17.0")
    assert good.returncode == 0 and "transformers==5.17.0: installed in place of 5.15.1" in good.stdout
    assert pod("has", "transformers==5.15.1").stdout == "5.17.0\n"
    several = pod("has", "transformers==5.17.0", "none>=1", "xxhash")
    assert several.stdout == "ok\nabsent\nok\n" and several.returncode == 1 and pod("has").returncode == 0
    optional = pod("0|none==1", "1|xxhash==4.1.0")
    assert optional.returncode == 0 and "no matching distribution for none==1" in optional.stdout


@pytest.mark.parametrize("row", ["transformers==1", "2|x==1", "1|==1", "|x"])
def test_rows_that_are_none(pod: Callable[..., subprocess.CompletedProcess[str]], row: str) -> None:
    done = pod(row)
    assert done.returncode == 65 and done.stderr.startswith("input: ") and "Traceback" not in done.stderr
