"""A distribution that was replaced, imports, and with which the engine then does not start."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pod.patches.outcomes import Applied, Refused, of_line
from pod.patches.upgrades import Upgrade, Upgrades, add, note_of, read, settle, spoilt, take_back

from tests.unit.pod.living import RUNTIME

NEW = Upgrade("transformers", "5.15.1", "5.16.1")
INSTALLER = ("/opt/install.sh", "/opt/python")


class Site:
    """What is installed. `refused` cannot be installed; what is `ignored` is said to be and is not."""

    def __init__(self, refused: str = "", ignored: str = "") -> None:
        self.installed, self.asked, self.refused, self.ignored = {"transformers": "5.16.1"}, list[str](), refused, ignored

    def install(self, requirement: str) -> str:
        self.asked.append(requirement)
        if requirement == self.refused:
            return "no index answers"
        name, _, version = requirement.partition("==")
        if requirement != self.ignored:
            self.installed[name] = version
        return ""


@pytest.fixture
def note(tmp_path: Path) -> Path:
    file = note_of({"PODWRIGHT_ROOT": str(tmp_path)})
    add(file, INSTALLER, NEW)
    return file


def test_a_note_is_read_again_and_holds_one_row_for_each_name(note: Path) -> None:
    assert read(note) == Upgrades(INSTALLER, (NEW,)) and str(NEW) == "transformers 5.16.1 in place of 5.15.1"
    add(note, INSTALLER, dataclasses.replace(NEW, now="5.17.0"))
    assert [row.now for row in read(note).rows] == ["5.17.0"]


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b'{"installer": 1, "rows": []}', b'{"installer": [], "rows": [{}]}'])
def test_a_note_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    assert read(tmp_path / "x") == Upgrades()


def test_it_is_taken_back_once(note: Path) -> None:
    site = Site()
    assert take_back(note, site.install, site.installed.get) == [Applied("transformers==5.15.1", "is back; the engine did not start with 5.16.1")]
    assert site.installed == {"transformers": "5.15.1"}
    assert take_back(note, site.install, site.installed.get) == [] and site.asked == ["transformers==5.15.1"]


@pytest.mark.parametrize(("site", "problem"), [(Site(refused="transformers==5.15.1"), "no index answers"),
                                               (Site(ignored="transformers==5.15.1"), "5.16.1 is there afterwards")])  # fmt: skip
def test_a_way_back_that_fails_is_said_and_not_tried_again(note: Path, site: Site, problem: str) -> None:
    outcome = take_back(note, site.install, site.installed.get)[0]
    assert isinstance(outcome, Refused) and outcome.reason == f"transformers==5.15.1 could not be brought back: {problem}"
    assert take_back(note, site.install, site.installed.get) == []


def test_what_has_served_stays(note: Path) -> None:
    settle(note)
    assert read(note).unproved(Site().installed.get) == () and take_back(note, Site().install, Site().installed.get) == []


def test_what_somebody_has_changed_since_is_not_ours(note: Path) -> None:
    assert read(note).unproved({"transformers": "5.17.0"}.get) == () and read(note).unproved(dict[str, str]().get) == ()


def test_nothing_is_written_where_nothing_is_to_be_settled(tmp_path: Path) -> None:
    settle(tmp_path / "none" / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("requirement", "installed", "found"), [
    ("transformers==5.16.1", "5.15.1", True), ("transformers>=5.16", "5.15.1", True), ("transformers==5.17.0", "5.15.1", False),
    ("transformers==5.16.1", "5.14.0", False), ("other==5.16.1", "5.15.1", False),
])  # fmt: skip
def test_what_was_taken_back_is_not_wanted_again(note: Path, requirement: str, installed: str, found: bool) -> None:
    take_back(note, Site().install, Site().installed.get)
    assert (spoilt(note, requirement, {"transformers": installed}.get) is not None) is found


def test_the_command_upgrades_takes_back_and_does_not_upgrade_again(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "thing-1.0.dist-info").mkdir(parents=True)
    (site / "thing-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    install = tmp_path / "install.sh"
    install.write_text(f'#!/bin/bash\nversion=${{2##*==}}\ncd "{site}"; mv thing-*.dist-info "thing-$version.dist-info"\n'
                       'printf "Metadata-Version: 2.1\\nName: thing\\nVersion: %s\\n" "$version" >"thing-$version.dist-info/METADATA"\n')  # fmt: skip
    install.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{site}:{RUNTIME}", "PODWRIGHT_ROOT": str(tmp_path / "root")}

    def pod(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pod.patches", *words], env=env, capture_output=True, text=True, check=False)

    upgrade = ("packages", "--install", str(install), "1|thing==2.0")
    assert pod(*upgrade).stdout == "thing==2.0: installed in place of 1.0\n"
    assert pod(*upgrade).stdout == "thing==2.0: installed\n"
    back = pod("take-back")
    assert back.returncode == 0 and of_line(back.stdout) == Applied("thing==1.0", "is back; the engine did not start with 2.0"), back.stdout + back.stderr
    again = pod(*upgrade)
    assert again.returncode == 0 and again.stdout == "thing==2.0: not tried again, the engine did not start with it; thing 1.0 stays\n"
    assert pod("has", "thing==1.0").stdout == "ok\n" and pod("take-back").stdout == ""
