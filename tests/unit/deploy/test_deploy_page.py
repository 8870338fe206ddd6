"""docs/deploy.md and the code name the same failures and the same commands; and what a command imports."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys

import compiler.deploy
from compiler import cli_deploy
from compiler.deploy.failures import DeployError
from compiler.deploy.provider_errors import ProviderError
from compiler.deploy.troubles import KINDS
from tests.support import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")


def failures(kind: type[DeployError]) -> set[type[DeployError]]:
    return {kind}.union(*(failures(sub) for sub in kind.__subclasses__()))


def test_every_code_has_its_row_and_every_row_its_code() -> None:
    for module in pkgutil.iter_modules(compiler.deploy.__path__):
        importlib.import_module(f"compiler.deploy.{module.name}")
    used = [kind.code for kind in failures(DeployError) if kind.code.startswith("DPL") and kind is not ProviderError] + [kind.code for kind in KINDS]
    assert sorted(used) == sorted(set(used))
    assert re.findall(r"^\| (DPL\d{3}) \|", PAGE, re.M) == sorted(used)


def test_every_command_is_on_the_page() -> None:
    table = PAGE.split("| command |")[1].split("\n\n")[0]
    for name in ("deploy", "wait", "status", "logs", "stop", "start", "restart", "terminate", "stock", "cost", "sweep"):
        assert callable(getattr(cli_deploy, name)) and re.search(rf"`[^`]*\b{name}\b", table), name


def test_a_question_does_not_wait_for_what_only_a_build_needs() -> None:
    """Each of these takes longer to import than the question takes to answer."""
    code = "import sys, compiler.cli, compiler.deploy.pod_queries, compiler.deploy.runpod_v2; print(*sys.modules)"
    loaded = set(process_of(code).split())
    assert "httpx" in loaded
    assert not loaded & {"jinja2", "docker", "huggingface_hub", "cryptography", "compiler.plan", "compiler.resolve", "compiler.render", "compiler.lint", "compiler.targets.runpod", "compiler.deploy.lock"}
    assert not set(process_of("import sys, compiler.cli; print(*sys.modules)").split()) & {"httpx", "ssl", "compiler.deploy.http_api"}


def process_of(code: str) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'images/runtime'}"}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True).stdout
