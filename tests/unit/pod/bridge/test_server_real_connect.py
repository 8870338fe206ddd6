"""What Claude Code makes of a bundle's `connect.sh`: names, windows, `/context`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.unit.pod.bridge.claude import MILLION, RUN_S, SMALL, USUAL, Scripted, bundled, claude, needs_claude, played

pytestmark = [pytest.mark.real_client, needs_claude]


def number(text: str) -> float:
    """`14.1k`, `1m`, `262.1k` in tokens."""
    return float(text[:-1]) * {"k": 1e3, "m": 1e6}[text[-1]] if text[-1] in "km" else float(text)


@pytest.mark.parametrize(("profile", "name", "window"), [(USUAL, "qwen38", 262_144), (MILLION, "claude-nemotron[1m]", 1_000_000), (SMALL, "tiny", 32_768)])
def test_context(tmp_path: Path, profile: str, name: str, window: int) -> None:
    """`/context` shows the model and the window of the bundle, and what the engine's tokenizer counts."""
    engine = Scripted(lambda _: [{"content": "Yes."}])
    shown = played(engine, tmp_path, "/context", profile=profile)[0]["result"]
    found = re.search(r"\*\*Model:\*\* (\S+)\s+\*\*Tokens:\*\* (\S+) / (\S+) \(", shown)
    assert found and found[1] == name and number(found[3]) == pytest.approx(window, rel=0.01), shown
    assert 0.02 * 262_144 < number(found[2]) < 32_768 and "Autocompact buffer" in shown
    # Every count came from the engine, and no generation was paid for them.
    assert len(engine.of("/tokenize")) > 5 and engine.turns == []


@pytest.mark.parametrize(("profile", "name", "served", "window"), [
    (USUAL, "qwen38", "qwen38", 262_144), (MILLION, "claude-nemotron[1m]", "claude-nemotron", 1_000_000), (SMALL, "tiny", "tiny", 32_768)])  # fmt: skip
def test_the_name_and_the_window_of_a_bundle(tmp_path: Path, profile: str, name: str, served: str, window: int) -> None:
    engine = Scripted(lambda _: [{"content": "Yes."}])
    result, trace = played(engine, tmp_path, "hello", profile=profile)
    assert result["result"] == "Yes." and [turn["model"] for turn in engine.turns] == [served]
    assert {used: usage["contextWindow"] for used, usage in result["modelUsage"].items()} == {name: window}
    assert {line["client"] for line in trace} == {"podwright_api_key"}


def test_any_name_gets_the_served_model(tmp_path: Path) -> None:
    """Tiers, names of the official API, and names that nobody knows."""

    async def work() -> None:
        engine = Scripted(lambda _: [{"content": "Yes."}])
        async with bundled(engine) as bridge:
            for name in ("opus", "sonnet", "haiku", "claude-opus-5", "qwen38", "claude-qwen38", "anthropic/claude-never-heard-of"):
                result = await claude(bridge, tmp_path, "hello", "--model", name)
                assert result["result"] == "Yes.", (name, result)
        assert len(engine.turns) == 7
        served = set(bridge.app.settings.models[0].names)
        assert {turn["model"] for turn in engine.turns} <= served

    asyncio.run(asyncio.wait_for(work(), RUN_S))
