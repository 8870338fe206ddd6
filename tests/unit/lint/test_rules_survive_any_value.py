"""No rule ends in a traceback, whatever somebody writes as an engine option."""

from __future__ import annotations

import re

import pytest

from compiler.lint.registry import rules
from tests.support import REMOVE, ROOT, subject

ODD = ["text", "", -1, 0, 2.5, True, None, [1], {"a": 1}, {"method": 5}, {"image": "x"}, '{"method": "mtp"}', "[1, 2]"]
LOOKED_AT = re.compile(r'(?:setting|number|text)\((?:subject, )?"([a-z_]+)"\)|mapping\(subject, "([a-z_]+)"\)')


def _settings_that_rules_read() -> list[str]:
    sources = [*(ROOT / "compiler" / "lint" / "rules").glob("*/*.py"), ROOT / "compiler" / "lint" / "facts.py"]
    return sorted({a or b for file in sources for a, b in LOOKED_AT.findall(file.read_text("utf-8"))})


SETTINGS = _settings_that_rules_read()


def test_the_settings_are_found() -> None:
    assert {"speculative_config", "block_size", "mamba_cache_mode", "tool_call_parser"} <= set(SETTINGS)


@pytest.mark.parametrize("base", ["qwen38-2xa40", "nemotron-ada", "flashnext-blackwell"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_setting_at_once_is_odd(base: str, value: object) -> None:
    changes = {f"settings.{name}": REMOVE for name in SETTINGS} | {f"engine_args.{name}": value for name in SETTINGS}
    seen = subject(base, {"profile": changes})
    assert seen.setting("mamba_block_size") == (tuple(value) if isinstance(value, list) else value)
    found = [hit for r in rules() if r.rule.stage == "plan" for hit in r.checked.check(seen)]
    assert all(hit.what and hit.fix for hit in found)


@pytest.mark.parametrize("name", SETTINGS)
def test_one_setting_is_text(name: str) -> None:
    seen = subject("nemotron-ada", {"profile": {f"settings.{name}": REMOVE, f"engine_args.{name}": "no such thing"}})
    assert isinstance([hit for r in rules() if r.rule.stage == "plan" for hit in r.checked.check(seen)], list)
