"""Every shipped profile compiles to its golden bundle, byte by byte. After a change that is meant: `make golden`, and read the diff."""

from __future__ import annotations

import difflib

import pytest

from tests.golden.rewrite import GOLDEN, bundle, golden_files, profiles

MOST_LINES = 60


def difference(name: str, path: str, golden: bytes | None, now: bytes | None) -> str:
    """The difference of one file as a person reads it."""
    if golden is None or now is None:
        return f"{name}/{path} is {'new' if golden is None else 'gone'}\n"
    try:
        lines = list(difflib.unified_diff(golden.decode().splitlines(), now.decode().splitlines(), f"golden {name}/{path}", f"compiled {name}/{path}", lineterm="", n=2))
    except UnicodeDecodeError:
        return f"{name}/{path} differs: {len(golden)} bytes golden, {len(now)} compiled\n"
    more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([line[:300] for line in lines[:MOST_LINES]] + more) + "\n"


@pytest.mark.parametrize("name", profiles())
def test_bundle_is_golden(name: str) -> None:
    now = golden_files(bundle(name))
    folder = GOLDEN / name
    golden = {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    differing = sorted(path for path in golden.keys() | now.keys() if golden.get(path) != now.get(path))
    if differing:
        shown = "\n".join(difference(name, path, golden.get(path), now.get(path)) for path in differing[:3])
        pytest.fail(f"{name} is not golden in {', '.join(differing)}\n\n{shown}\nIf this is meant: make golden, and read the difference.", pytrace=False)


def test_no_golden_bundle_is_left_over() -> None:
    assert sorted(f.name for f in GOLDEN.iterdir() if f.is_dir() and f.name != "__pycache__") == profiles()


def test_difference_is_readable() -> None:
    text = difference("p", "a", b"one\ntwo\n" + b"same\n" * 9 + b"x\n" * 200, b"one\n2\n" + b"same\n" * 9)
    assert "-two" in text
    assert "+2" in text
    assert "more lines" in text
    assert difference("p", "a", None, b"") == "p/a is new\n"
    assert difference("p", "a", b"", None) == "p/a is gone\n"
    assert "differs" in difference("p", "a", b"\xff", b"\xfe")
