"""Which engine is asked: a given Python, a cached environment, or one that is made by the script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compiler.verify.environment import SCRIPT, NoEngine, engines_folder, given_engine, release_engine
from tests.unit.verify.recorded import fake_python


def script(root: Path, body: str) -> Path:
    """A root whose environment script does `body`."""
    path = root / SCRIPT
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return root


def made(root: Path, cache: Path, may_make: bool = True) -> tuple[list[str], Path]:
    said: list[str] = []
    engine = release_engine("0.27.1", None, root, {**os.environ, "PODWRIGHT_REAL_PARTS_DIR": str(cache)}, may_make, said.append)
    return said, engine.python


def test_a_cached_environment_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "vllm-0.27.1"
    folder.mkdir()
    (folder / ".complete").touch()
    assert made(tmp_path, tmp_path, may_make=False) == ([], folder / "bin" / "python")


def test_one_is_made_once_with_its_progress(tmp_path: Path) -> None:
    root = script(tmp_path / "root", 'mkdir -p "$2"; echo "installing $1" >&2; touch "$2/.complete"; echo "$2"')
    said, python = made(root, tmp_path / "cache")
    assert said[0].startswith("making an environment with vLLM 0.27.1") and said[1] == "installing 0.27.1"
    assert made(root, tmp_path / "cache") == ([], python)


@pytest.mark.parametrize(("code", "said"), [(3, "no Python 3.12"), (4, "cannot be asked|can be asked"), (1, "exit code 1")])
def test_a_script_that_fails_is_told_with_its_last_line(tmp_path: Path, code: int, said: str) -> None:
    root = script(tmp_path / "root", f"echo why it failed >&2; exit {code}")
    with pytest.raises(NoEngine, match=said) as caught:
        made(root, tmp_path / "cache")
    assert caught.value.why == "why it failed" and "--engine-python" in caught.value.fix


def test_a_python_without_the_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match="cannot be run"):
        given_engine(tmp_path / "none", "0.27.1", tmp_path, {})
    with pytest.raises(NoEngine, match=r"has vllm 0\.26\.0"):
        given_engine(fake_python(tmp_path, [], "0.26.0"), "0.27.1", tmp_path, {})


def test_a_given_python_takes_the_driver_beside_it_or_gets_one(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "env", [], "0.27.1+cu130")
    assert given_engine(python, "0.27.1", tmp_path, {}).driver == tmp_path / "env" / "no-device"
    (tmp_path / "env" / "no-device" / "libcuda.so.1").unlink()
    root = script(tmp_path / "root", '[ "$1 $2" = "--driver /nowhere/vllm" ] || exit 9; mkdir -p "$3"; touch "$3/libcuda.so.1"')
    driver = given_engine(python, "0.27.1", root, {"PODWRIGHT_REAL_PARTS_DIR": str(tmp_path / "cache")}).driver
    assert driver == tmp_path / "cache" / "driver-0.27.1" and (driver / "libcuda.so.1").exists()


def test_environments_lie_in_the_users_cache(tmp_path: Path) -> None:
    assert engines_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "podwright" / "real-parts"
    assert engines_folder({"PODWRIGHT_REAL_PARTS_DIR": str(tmp_path)}) == tmp_path
