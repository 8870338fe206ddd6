"""What the check says without an engine; tests/integration/engine asks real releases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

SCRIPT = ROOT / "images" / "runtime" / "pod" / "argv_check.py"
FAKE_MAIN = """
import sys
print("noise on standard output", flush=True)
def main():
    import journal
    from vllm.entrypoints.cli.serve import ServeSubcommand
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("serve"); parser.add_argument("model_tag", nargs="?"); parser.add_argument("--config"); parser.add_argument("--raise", dest="how")
    args = parser.parse_args()
    if args.how == "exit":
        sys.exit(3)
    if args.how:
        raise TypeError("two\\nlines " + "x" * 5000)
    ServeSubcommand.cmd(args)
"""


def asked(stdin: str, *, path: Path | None = None) -> dict[str, Any]:
    env = {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run([sys.executable, str(SCRIPT)], input=stdin, capture_output=True, text=True, env=env, check=True, timeout=60)
    assert done.stdout.count("\n") == 1, "one line, whatever the engine prints"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A folder with a package that is called vllm, and a module with the name of one of ours."""
    files = {"vllm/__init__.py": "", "vllm/platforms/__init__.py": "class current_platform: device_type = 'cpu'", "vllm/entrypoints/__init__.py": "",
             "vllm/entrypoints/cli/__init__.py": "", "vllm/entrypoints/cli/serve.py": "class ServeSubcommand: pass",
             "vllm/entrypoints/cli/main.py": FAKE_MAIN, "journal.py": ""}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("stdin", ["", "{", "7", "[]", '["vllm", 3]', '{"argv": []}'])
def test_what_is_no_argv_is_refused(stdin: str) -> None:
    assert asked(stdin)["ok"] is False


def test_other_programs_are_not_judged() -> None:
    assert asked('["python", "-m", "other"]') == {"ok": True, "note": "not checked: this is no command line of `vllm serve`"}


def test_an_engine_that_is_not_there_refuses_everything() -> None:
    assert "cannot be imported" in asked('["vllm", "serve", "m"]')["error"]


def test_the_engines_own_path_decides(engine: Path) -> None:
    assert asked('["/opt/venv/bin/vllm", "serve", "m"]', path=engine) == {"ok": True}
    assert asked('["vllm", "serve", "m", "--swap-space", "4"]', path=engine) == {"ok": False, "error": "unrecognized arguments: --swap-space 4"}
    assert asked('["vllm", "serve"]', path=engine)["error"] == "names no model"
    assert asked('["vllm", "serve", "--config", "x.yaml"]', path=engine) == {"ok": True}
    assert asked('["vllm", "serve", "m", "--raise", "exit"]', path=engine)["error"] == "SystemExit: 3"


def test_an_error_is_one_short_line(engine: Path) -> None:
    error = asked('["vllm", "serve", "m", "--raise", "now"]', path=engine)["error"]
    assert error.startswith("TypeError: two lines x") and len(error) == 800
