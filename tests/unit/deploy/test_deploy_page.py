"""docs/deploy.md and the code name the same failures and the same commands."""

from __future__ import annotations

import importlib
import pkgutil
import re

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
