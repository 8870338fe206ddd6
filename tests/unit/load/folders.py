"""Test help: folders of specs made on the spot, over the shipped ones."""

from __future__ import annotations

from pathlib import Path

from compiler.diagnostics import Diagnostic, located
from compiler.load import SpecStore, load_specset
from compiler.schema.specset import SpecSet
from tests.support import SPECS

CHILD = "kind: profile\nsummary: A test.\nextends: nemotron-ada\n"


def made(folder: Path, files: dict[str, str | bytes]) -> SpecStore:
    """A store over `folder`, filled with `files`, in front of the shipped specs."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return SpecStore([folder, SPECS])


def loaded(folder: Path, profile: str | bytes, name: str = "mine", **files: str | bytes) -> tuple[SpecSet | None, list[Diagnostic]]:
    """Profile `name` with this text, loaded, and its findings with positions. `files` are further specs, `models__x` for models/x.yaml."""
    store = made(folder, {f"profiles/{name}.yaml": profile} | {f"{key.replace('__', '/')}.yaml": text for key, text in files.items()})
    specs, problems = load_specset(store, name)
    return specs, located(problems, store)


def codes(problems: list[Diagnostic]) -> list[str]:
    """The codes of findings, in printing order."""
    return [d.code for d in problems]
