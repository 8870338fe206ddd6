"""Every built bundle passes the real engine's configuration phase on the card that it is for, without that card.

The questions about the card are answered by the fakecard folder; this needs it, an engine environment, and for each bundle a
`config.json` of the model's shape. A bundle's own checkpoint cannot be fetched here, so a public shape of the same architecture
stands in: what depends on layers, heads and experts is true of the real one, what depends on its quantization is not asked.
"""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.parts import FAKECARD, Built, EngineParts, built_bundles, configuration_answers, engine_absent, engine_parts

BUNDLES = [bundle for bundle in built_bundles() if bundle.plan["engine"]["distribution"] == "vllm"]
# Flags whose value is a file or a download of the pod, or that read the checkpoint's tokenizer (the reasoning parser, whose name
# the parser's own test checks): these are not there, and say nothing about the configuration.
OF_THE_POD = {"--reasoning-parser", "--chat-template", "--tokenizer", "--revision", "--tokenizer-revision", "--code-revision", "--download-dir", "--hf-config-path"}
# A draft is a second checkpoint, which the configuration phase opens.
DRAFT_KEY = "model"
LONG_WINDOW = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def shapes() -> dict[str, Path]:
    """The public shapes by architecture; an unquantized one goes before a quantized one."""
    found: dict[str, Path] = {}
    for path in sorted(FAKECARD.glob("shapes/*.json"), key=lambda path: ("quantization_config" in path.read_text(), path.name)):
        found.setdefault(json.loads(path.read_text())["architectures"][0], path)
    return found


def shape_of(bundle: Built) -> dict[str, Any]:
    """The public shape that stands in for a bundle's checkpoint, with the window that the plan believes to be native."""
    shape: dict[str, Any] = json.loads(shapes()[bundle.plan["model"]["architecture"]].read_text())
    text = shape.get("text_config", shape)
    for key in {"max_position_embeddings", "model_max_length"} & set(text):
        text[key] = bundle.plan["model"]["native_context"]
    return shape


def offline_flags(flags: list[str]) -> list[str]:
    """A command line without its model and without what only the pod has."""
    kept: list[str] = []
    words = iter(flags[1:])
    for word in words:
        name = word.split("=", 1)[0]
        if name in OF_THE_POD:
            if "=" not in word:
                next(words, None)
            continue
        kept.append(word)
    return kept


def has_draft(flags: list[str]) -> bool:
    """Whether speculation names a checkpoint of its own."""
    for index, word in enumerate(flags):
        if word == "--speculative-config":
            return DRAFT_KEY in json.loads(flags[index + 1])
    return False


def askable(bundle: Built) -> str | None:
    """Why a bundle's question cannot be asked here; None if it can."""
    if not FAKECARD.is_dir():
        return f"SKIPPED: no fakecard folder at {FAKECARD}"
    if bundle.plan["model"]["architecture"] not in shapes():
        return f"SKIPPED: no public shape of {bundle.plan['model']['architecture']}"
    if has_draft(bundle.flags):
        return "SKIPPED: its draft is a checkpoint that cannot be fetched here"
    return engine_absent(bundle.release) if engine_parts(bundle.release) is None else None


def long_window(bundle: Built) -> bool:
    """Whether the pod lets the engine go past its own idea of the window; set here only where the pod sets it, since it hides a
    YaRN override without effect."""
    return any(variable["name"] == LONG_WINDOW for variable in bundle.plan["engine"]["env"])


@functools.cache
def answers(release: str, card: str, long: bool, folder: Path) -> dict[str, dict[str, Any]]:
    """The configuration phase's answers to all bundles of one release for one card, asked of one process."""
    parts = engine_parts(release)
    assert isinstance(parts, EngineParts)
    jobs = []
    for bundle in BUNDLES:
        if (bundle.release, bundle.card, long_window(bundle)) == (release, card, long) and askable(bundle) is None:
            model = folder / bundle.name
            model.mkdir(exist_ok=True)
            (model / "config.json").write_text(json.dumps(shape_of(bundle)))
            jobs.append({"id": bundle.name, "model": str(model), "argv": offline_flags(bundle.flags)})
    return configuration_answers(parts, card, jobs, **({LONG_WINDOW: "1"} if long else {}))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the session's model folders, so that answers are asked for once."""
    return tmp_path_factory.mktemp("models")


@pytest.mark.real_engine
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_the_real_engine_takes_the_configuration(bundle: Built, models: Path) -> None:
    if reason := askable(bundle):
        pytest.skip(reason)
    answer = answers(bundle.release, bundle.card, long_window(bundle), models)[bundle.name]
    assert answer["ok"], answer["error"]
    assert answer["max_len"] == bundle.plan["engine"]["max_model_len"]
    assert answer["runner"] == bundle.plan["engine"]["runner"]
    if (factor := bundle.plan["model"]["yarn_factor"]) is not None:
        assert answer["rope"].get("factor") == factor, "the YaRN override was swallowed"


@pytest.mark.real_engine
def test_an_impossible_configuration_is_refused(models: Path) -> None:
    parts = engine_parts("0.27.1")
    if parts is None or not FAKECARD.is_dir():
        pytest.skip(engine_absent("0.27.1") if parts is None else f"SKIPPED: no fakecard folder at {FAKECARD}")
    folder = models / "dense"
    folder.mkdir(exist_ok=True)
    shutil.copy(FAKECARD / "shapes" / "qwen3-8b.json", folder / "config.json")
    jobs = [
        {"id": "good", "model": str(folder), "argv": ["--max-num-batched-tokens", "2048", "--max-num-seqs", "64"]},
        {"id": "a batch below its sequences", "model": str(folder), "argv": ["--max-num-batched-tokens", "32", "--max-num-seqs", "64", "--no-enable-chunked-prefill"]},
        {"id": "an unknown window", "model": str(folder), "argv": ["--max-model-len", "999999"]},
    ]
    found = configuration_answers(parts, "NVIDIA A40|8.6|46068|1", jobs)
    assert [found[job["id"]]["ok"] for job in jobs] == [True, False, False], found
