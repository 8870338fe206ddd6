"""The locks that the Makefile installs from."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_every_line_of_a_lock_is_a_pin_or_its_hash(name: str) -> None:
    lines = (ROOT / "compiler" / "locks" / name).read_text("utf-8").splitlines()
    odd = [line for line in lines if not re.match(r"^([a-z0-9][a-z0-9.-]*==[^ ]+( ;.*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?)$", line)]
    assert odd == []


def test_tests_and_commands_share_their_pins() -> None:
    pins = [dict(re.findall(r"^([a-z0-9.-]+)==([^ ]+)", (ROOT / "compiler" / "locks" / f).read_text("utf-8"), re.MULTILINE)) for f in ("runtime.txt", "dev.txt")]
    assert {name: version for name, version in pins[0].items() if pins[1].get(name) != version} == {}
