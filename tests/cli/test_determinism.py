"""The same specs give the same bytes in any process, folder, locale, time zone, home, umask, hash seed and Python, and from any checkout."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, process
from tests.support import ROOT

pytestmark = pytest.mark.living

SAMPLE = ("nemotron-ada", "ornith-qwen38-swap", "swift-2x4090", "tiny-cpu")
BUILD = "from compiler.cli import main; main()"


def sums(folder: Path) -> dict[str, tuple[str, int]]:
    """Hash and mode of every file and folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        found[path.relative_to(folder).as_posix()] = (content, path.stat().st_mode & 0o777)
    return found


@functools.cache
def expected(base: Path) -> dict[str, tuple[str, int]]:
    out = base / "expected"
    if not out.exists():
        assert process("build", *SAMPLE, "--out", out).returncode == 0
    return sums(out)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("determinism")


@pytest.mark.parametrize("changes", [
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "HOME": "/nonexistent"},
    {"PYTHONHASHSEED": "4711", "LC_ALL": "C", "LANG": "C", "TZ": "America/St_Johns"},
    {"PYTHONHASHSEED": "0", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0", "USER": "somebody", "COLUMNS": "20"},
    {"PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "latin-1", "NO_COLOR": "1", "TERM": "dumb"},
    {"PODWRIGHT_API_KEY": "abc", "HF_TOKEN": "abc", "VLLM_API_KEY": "abc", "HF_HOME": "/elsewhere", "SOURCE_DATE_EPOCH": "1"},
])  # fmt: skip
def test_environment_does_not_matter(base: Path, tmp_path: Path, changes: dict[str, str]) -> None:
    ended = process("build", *SAMPLE, "--out", tmp_path / "out", cwd=tmp_path, **changes)
    assert ended.returncode == 0, ended.stderr.decode()
    assert sums(tmp_path / "out") == expected(base)


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_umask_does_not_matter(base: Path, tmp_path: Path, umask: int) -> None:
    subprocess.run([sys.executable, "-c", BUILD, "build", *SAMPLE, "--out", str(tmp_path / "out")], cwd=tmp_path, env=environment(), capture_output=True, check=True, umask=umask)
    assert {path: value for path, value in sums(tmp_path / "out").items() if "/" in path} == {path: value for path, value in expected(base).items() if "/" in path}


def test_checkout_does_not_matter(base: Path, tmp_path: Path) -> None:
    """A copy of the checkout elsewhere, its files younger, with an editor's leftovers in it."""
    copy = tmp_path / "some where" / "é"
    for part in ("compiler", "specs", "templates", "images"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    (copy / "images" / "runtime" / "pod" / ".contract.py.swp").write_bytes(b"\xff")
    (copy / "images" / "runtime" / "pod" / "__pycache__").mkdir()
    (copy / "images" / "runtime" / "pod" / "__pycache__" / "x.pyc").write_bytes(b"\xff")
    env = environment(PYTHONPATH=f"{copy}{os.pathsep}{copy / 'images' / 'runtime'}")
    ended = subprocess.run([sys.executable, "-c", BUILD, "build", *SAMPLE, "--out", str(tmp_path / "out")], cwd="/", env=env, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert sums(tmp_path / "out") == expected(base)


def test_order_and_company_do_not_matter(base: Path, tmp_path: Path) -> None:
    for name in reversed(SAMPLE):
        assert process("build", name, "--out", tmp_path / "out").returncode == 0
    assert sums(tmp_path / "out") == expected(base)


def test_other_pythons_do_not_matter(base: Path, tmp_path: Path) -> None:
    """PODWRIGHT_PYTHONS names further interpreters that have the dependencies, separated like PATH."""
    others = [python for python in os.environ.get("PODWRIGHT_PYTHONS", "").split(os.pathsep) if python]
    if not others:
        pytest.skip("PODWRIGHT_PYTHONS names no further interpreter")
    for number, python in enumerate(others):
        ended = process("build", *SAMPLE, "--out", tmp_path / str(number), python=python)
        assert ended.returncode == 0, ended.stderr.decode()
        assert sums(tmp_path / str(number)) == expected(base)
