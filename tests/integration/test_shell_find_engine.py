"""find-engine.sh and held.py under a real Bash and real environments: whoever has the engine is found, wherever it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMON = Path(__file__).parents[2] / "images" / "common"


class Place:
    """A folder that stands for /opt/podwright, and environments beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path: list[Path] = []
        (root / "podwright").mkdir()
        shutil.copytree(COMMON, root / "podwright/common")

    def environment(self, name: str, *, engine: bool) -> Path:
        """A virtual environment without pip; with the engine's metadata when asked for. Returns its interpreter."""
        folder = self.root / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        if engine:
            site = next(folder.glob("lib/python*/site-packages"))
            (site / "vllm-0.27.1.dist-info").mkdir()
            (site / "vllm-0.27.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.27.1\n")
        return folder / "bin/python"

    def program(self, name: str, first_line: str) -> None:
        """`vllm` in a folder of PATH, with the first line that an installer gave it."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "vllm").write_text(f"{first_line}\nprint('engine')\n")
        (folder / "vllm").chmod(0o755)
        self.path.append(folder)

    def find(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run find-engine.sh with the made folders first on PATH."""
        env = {"PATH": ":".join(map(str, [*self.path, "/usr/bin", "/bin"]))}
        command = ["bash", str(self.root / "podwright/common/find-engine.sh"), *map(str, arguments)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def found(self) -> tuple[str, str]:
        """Prefix of the interpreter that engine-python runs, and the first folder of its PATH."""
        code = "import os, sys; print(sys.prefix, os.environ['PATH'].split(':')[0])"
        prefix, folder = subprocess.run([self.root / "podwright/engine-python", "-c", code], capture_output=True, text=True, check=True).stdout.split()
        return prefix, folder


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_interpreter_in_the_first_line_of_the_engines_program(place: Place) -> None:
    place.environment("other", engine=False)
    python = place.environment("engine", engine=True)
    place.program("bin", f"#!{python}")
    done = place.find("vllm")
    assert done.stdout == f"vllm 0.27.1 is in {python}\n" and place.found() == (str(place.root / "engine"), str(place.root / "engine/bin"))


def test_environment_whose_program_names_no_interpreter(place: Place) -> None:
    """uv writes such a program where the path is long, or the environment can be moved."""
    place.environment("engine", engine=True)
    place.program("engine/bin", "#!/bin/sh")
    assert place.find("vllm").returncode == 0 and place.found()[0] == str(place.root / "engine")


@pytest.mark.parametrize("program", [True, False])
def test_python_of_the_path(place: Place, program: bool) -> None:
    python = place.environment("engine", engine=True)
    if program:
        place.program("bin", "#!/usr/bin/env python3")
    place.path.append(python.parent)
    assert place.find("vllm").returncode == 0 and place.found()[0] == str(place.root / "engine")


def test_a_program_of_another_environment_does_not_mislead(place: Place) -> None:
    bare = place.environment("bare", engine=False)
    python = place.environment("engine", engine=True)
    place.program("bin", f"#!{bare}")
    place.path.append(python.parent)
    assert place.find("vllm").returncode == 0 and place.found()[0] == str(place.root / "engine")


def test_named_interpreter_and_no_other(place: Place) -> None:
    place.path.append(place.environment("engine", engine=True).parent)
    bare = place.environment("bare", engine=False)
    done = place.find("vllm", bare)
    assert done.returncode == 1 and f"no Python has vllm; tried: {bare}" in done.stderr
    assert not (place.root / "podwright/engine-python").exists()


def test_nowhere_says_what_was_tried(place: Place) -> None:
    done = place.find("no-such-engine")
    assert done.returncode == 1 and "no Python has no-such-engine; tried: " in done.stderr and "python3" in done.stderr


def test_folder_with_a_space_and_quotes(place: Place) -> None:
    python = place.environment("it's $(a) place", engine=True)
    assert place.find("vllm", python).returncode == 0
    shown = subprocess.run([place.root / "podwright/engine-python", "-c", "import sys; print(sys.prefix, *sys.argv[1:], sep='|')", "a b", "$c"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{place.root}/it's $(a) place|a b|$c\n"


def held(site: Path, *wanted: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-S", str(COMMON / "held.py"), *wanted], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_everything_installed_is_held_but_what_is_asked_for(tmp_path: Path) -> None:
    for name, version in {"torch": "2.13.0+cu130", "transformers": "5.15.1", "Tokenizers_X": "0.22.2", "python-apt": "2.7.7+ubuntu4.1", "distro-info": "1.1build1", "old": "1!2.0rc1.post2.dev3"}.items():
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    assert held(tmp_path, "transformers==5.16.1", "tokenizers.x") == ["old==1!2.0rc1.post2.dev3", "python-apt==2.7.7+ubuntu4.1", "torch==2.13.0+cu130", "transformers==5.16.1"]
    assert "Tokenizers_X==0.22.2" in held(tmp_path, "xxhash[fast]==4.1.0") and "xxhash==4.1.0" in held(tmp_path, "xxhash[fast]==4.1.0")
