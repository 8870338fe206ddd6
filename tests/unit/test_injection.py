"""Hostile text in every text field of every spec: refused with a finding, or every artifact stays what it is and nothing runs.

The profile in `tests.unit.maximal` writes every key that can hold text; each of its texts and keys is replaced in turn.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact import Artifact, Bundle
from compiler.diagnostics import Route, formatted
from compiler.load import image_files
from compiler.pipeline import compiled
from tests.support import ROOT
from tests.unit import maximal
from tests.unit.maximal import NAME, PATHS, loaded, replaced, text_fields, texts, written_fields

pytestmark = pytest.mark.living  # Thousands of compilations, and shells that read what they made.

FILES = image_files(ROOT)
RAN = "podwright-was-here"
ATTACKS = {
    "shell and templates": f"x'\"$(touch {RAN})`touch {RAN}`;touch {RAN}&&touch {RAN}|{{{{ 1234567 * 1000 }}}}{{% raw %}}${{HOME}}!\\ é日😀*?[]<>#%",
    "lines": f"x\ntouch {RAN}\nRUN touch {RAN}\nEOF\n'\n\"\n)\ntouch {RAN}\n",
    "marks": "x\u202eabc\u200b\u2028y\u0085z",
    "controls": "x\x1b]0;y\x07\x00z\r\x7f",
    "path": "../../etc/passwd",
    "option": "--help",
    "quote": "'",
    "backslash": "a\\",
    "long": "x" * 100_000,
}
# Fields that the maximal profile cannot write because another field of it excludes them, or that loading consumes.
EXCLUDED = {("Cuda", "minimum"), ("ProfileSpec", "extends"), ("Checkpoint", "folder"), ("MeasuredKv", "evidence")}


@functools.cache
def base() -> dict[str, Any]:
    return maximal.maximal()


@functools.cache
def base_bundle() -> Bundle:
    specs, problems = loaded(base())
    assert specs is not None, [formatted(d) for d in problems]
    result = compiled(specs, FILES)
    assert result.bundle is not None, [formatted(d) for d in result.diagnostics if d.is_error]
    return result.bundle


def places(kind: str) -> list[tuple[Route, bool]]:
    """Routes of texts, those of reasons and evidence of one kind of section once."""
    seen, found = set(), []
    for route, key in texts(base()[PATHS[kind]]):
        general = tuple("*" if isinstance(part, int) or (i == 1 and route[-1] != "value") else part for i, part in enumerate(route)) if route[0] in ("settings", "engine") else tuple(
            "*" if isinstance(part, int) else part for part in route)  # fmt: skip
        if (general, key) not in seen:
            seen.add((general, key))
            found.append((route, key))
    return found


def test_every_text_field_is_attacked() -> None:
    specs, _ = loaded(base())
    assert specs is not None
    for kind in PATHS:
        spec = getattr(specs, kind)
        assert text_fields(type(spec)) - written_fields(spec) - EXCLUDED == set()


def built(data: dict[str, Any]) -> tuple[Bundle | None, tuple[str, ...]]:
    specs, problems = loaded(data)
    result = compiled(specs, FILES) if specs is not None else None
    found = [*problems, *(result.diagnostics if result else ())]
    json.dumps([d.to_json() for d in found], allow_nan=False)
    return (result.bundle if result else None), tuple(formatted(d) for d in found)


def check(bundle: Bundle | None, printed: tuple[str, ...], where: object, folder: Path) -> None:
    """A refusal says why in clean words; a bundle is whole."""
    assert all(line.isprintable() for text in printed for line in text.splitlines()), where
    assert all(len(text) < 20_000 for text in printed), where
    if bundle is None:
        assert printed, f"{where} refused without a word"
        return
    assert [problem for a in bundle.artifacts for problem in faults(a, folder)] == [], where
    assert {a.path for a in bundle.artifacts} == {a.path for a in base_bundle().artifacts}, where
    assert not (folder / RAN).exists()


VARIANTS: dict[str, dict[str, object]] = {
    "on an own machine": {"target": "docker", "deploy": {"clouds": ("SECURE",), "reason": "A reason."}},
    "not prebaked": {"container": {"recipe": "vllm-openai", "prebaked": False, "reason": "A reason."}, "desktop": None, "kv_store": None, "swap": None},
}


@pytest.mark.parametrize("kind", PATHS)
def test_hostile_text_is_refused_or_harmless(kind: str, tmp_path: Path) -> None:
    """The worst text in every place in turn; then, where that is let through, every attack in all those places at once."""
    free = [place for place in places(kind) if one_by_one(kind, "shell and templates", place, tmp_path)]
    assert 0 < len(free) < len(places(kind))
    for route, key in places(kind):
        if loaded(base() | {PATHS[kind]: replaced(base()[PATHS[kind]], route, ATTACKS["lines"], key=key)})[0] is not None:
            one_by_one(kind, "lines", (route, key), tmp_path)
    for attack in ATTACKS:
        check(*built(with_all(base(), kind, free, attack)), attack, tmp_path)
    for variant, changes in VARIANTS.items():
        in_other_bundles(kind, free, variant, changes, tmp_path)


def one_by_one(kind: str, attack: str, place: tuple[Route, bool], folder: Path) -> bool:
    """True when a bundle comes out with one text replaced."""
    route, key = place
    bundle, printed = built(base() | {PATHS[kind]: replaced(base()[PATHS[kind]], route, ATTACKS[attack], key=key)})
    check(bundle, printed, (place, attack), folder)
    return bundle is not None


def with_all(data: dict[str, Any], kind: str, free: list[tuple[Route, bool]], attack: str) -> dict[str, Any]:
    """The data with an attack in all these places that exist and take it; inner places and values go first, so that routes hold."""
    for route, key in sorted(free, key=lambda place: (-len(place[0]), place[1])):
        if route[0] in data[PATHS[kind]]:
            trial = data | {PATHS[kind]: replaced(data[PATHS[kind]], route, ATTACKS[attack], key=key)}
            data = trial if loaded(trial)[0] is not None else data
    return data


def in_other_bundles(kind: str, free: list[tuple[Route, bool]], variant: str, changes: dict[str, object], folder: Path) -> None:
    profile = {key: value for key, value in (base()[PATHS["profile"]] | changes).items() if value is not None}
    data = base() | {PATHS["profile"]: profile}
    bundle, printed = built(data)
    assert bundle is not None, (variant, printed)
    for attack in ("shell and templates", "lines", "quote"):
        attacked, printed = built(with_all(data, kind, free, attack))
        assert attacked is not None or printed
        for artifact in attacked.artifacts if attacked else ():
            if artifact.path != "Dockerfile":  # Another recipe has other instructions than the base profile.
                assert list(faults(artifact, folder)) == [], (variant, kind, artifact.path)
    assert not (folder / RAN).exists()


def faults(artifact: Artifact, folder: Path) -> Iterator[str]:
    """What is wrong with an artifact that carries hostile text."""
    if base_bundle().by_path().get(artifact.path) == artifact:
        return
    if artifact.path.endswith(".json") or artifact.path == "bundle.lock":
        yield from _json_faults(artifact)
    elif artifact.path == "Dockerfile":
        yield from _dockerfile_faults(artifact)
    elif artifact.path.endswith(".sh"):
        yield from _shell_faults(artifact, folder)
    elif artifact.path.endswith(".ps1"):
        yield from _powershell_faults(artifact)
    elif artifact.path.endswith(".md") and ("1234567000" in artifact.text or "\x1b" in artifact.text):
        yield f"{artifact.path} ran a template or holds control characters"


def _json_faults(artifact: Artifact) -> Iterator[str]:
    value = json.loads(artifact.text, parse_constant=lambda constant: pytest.fail(f"{artifact.path} holds {constant}"))
    if "1234567000" in artifact.text:
        yield f"{artifact.path} ran a template"
    if artifact.path == "start-command.json":
        if not all(isinstance(word, str) and "\0" not in word for word in value):
            yield "the start command is not a list of words that a process takes"
        if value[:2] == ["bash", "-c"] and subprocess.run(["bash", "-n"], input=value[2].encode(), capture_output=True, check=False).returncode:
            yield "the script in the start command is none"
    if artifact.path == "manifest.json" and "\\u0000" in artifact.text:
        yield "the manifest holds a NUL, which no argv and no environment takes"


def _instructions(artifact: Artifact) -> list[str]:
    """The Dockerfile's instructions, each on one line, without comments."""
    lines = "\n".join(line for line in artifact.text.split("\n") if not line.lstrip().startswith("#"))
    return [line for line in lines.replace("\\\n", " ").split("\n") if line.strip()]


def _dockerfile_faults(artifact: Artifact) -> Iterator[str]:
    base = Counter(line.split()[0] for line in _instructions(base_bundle().by_path()["Dockerfile"]))
    if Counter(line.split()[0] for line in _instructions(artifact)) - base:
        yield "the Dockerfile has more instructions"
    if any(re.search(r"(?<!\\)\$\(touch", line) for line in _instructions(artifact)):
        yield "the Dockerfile substitutes"


def _shell_faults(artifact: Artifact, folder: Path) -> Iterator[str]:
    parsed = subprocess.run(["bash", "-n"], input=artifact.content, capture_output=True, check=False)
    if parsed.returncode or parsed.stderr:
        yield f"{artifact.path}: {parsed.stderr.decode()}"
    facts = artifact.text.partition("() {")[0].rpartition("\n")[0] if artifact.path == "bootstrap.sh" else f"{artifact.text}\n_podwright_connect podid"
    if artifact.path in ("bootstrap.sh", "connect.sh", "run.sh"):
        facts = artifact.text if artifact.path == "run.sh" else facts
        (folder / "secrets.env").write_text("PODWRIGHT_API_KEY=key\n")
        environment = {"PATH": "/usr/bin:/bin", "PODWRIGHT_ROOT": str(folder), "PODWRIGHT_API_KEY": "key", "HOME": str(folder), "PODWRIGHT_HF_HOME": str(folder), "PODWRIGHT_SECRETS": str(folder / "secrets.env")}
        subprocess.run(["bash", "-s"], input=facts.encode(), cwd=folder, env=environment, capture_output=True, check=False)
        if (folder / RAN).exists():
            yield f"{artifact.path} ran what a spec says"


def _powershell_faults(artifact: Artifact) -> Iterator[str]:
    """Outside literals and comments nothing of the attack may stand."""
    code = re.sub(r"'(?:[^'\u2018\u2019\u201a\u201b]|['\u2018\u2019\u201a\u201b]{2})*['\u2018\u2019\u201a\u201b]|#[^\n]*|\"(?:`.|[^\"`])*\"", "", artifact.text)
    if RAN in code:
        yield "connect.ps1 holds hostile text as code"


def test_base_profile_has_shell_and_images_worth_attacking() -> None:
    paths = {a.path for a in base_bundle().artifacts}
    assert paths >= {"bootstrap.sh", "connect.sh", "connect.ps1", "Dockerfile", "manifest.json", "start-command.json", "runpod-pod.json", "plan.json", "PLAN.md", "bundle.lock"}
    assert base_bundle().profile == NAME
