"""Turns of Claude Code itself, against a bridge in front of a scripted engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pod.bridge.claude import (
    CHAT,
    KEY,
    MILLION,
    RUN_S,
    Delta,
    Messages,
    Scripted,
    bundled,
    call,
    claude,
    is_summary,
    needs_claude,
    played,
    results,
    started,
    tokens_in,
)
from tests.unit.pod.bridge.net import Peer

pytestmark = [pytest.mark.real_client, needs_claude]


def test_a_plain_turn(tmp_path: Path) -> None:
    engine = Scripted(lambda _: [{"reasoning": "Let me see."}, {"content": "It is "}, {"content": "four."}])
    result, trace = played(engine, tmp_path, "two and two?")
    assert result["is_error"] is False and result["result"] == "It is four."
    assert {line["status"] for line in trace} == {200} and {line["client"] for line in trace} == {"podwright_api_key"}
    system = engine.turns[-1]["messages"][0]
    assert system["role"] == "system" and "x-anthropic-billing-header" not in json.dumps(system)
    (usage,) = result["modelUsage"].values()
    assert usage["inputTokens"] == tokens_in(engine.of(CHAT)[-1].body) - 16 and usage["cacheReadInputTokens"] == 16
    assert all(KEY not in asked.body.decode() and KEY not in str(asked.headers) for asked in engine.asked)


def test_a_file_is_written(tmp_path: Path) -> None:
    target = tmp_path / "hello.txt"
    text = 'line "one"\n\tdeux \u2028 \U0001f600\n' * 50

    def script(messages: Messages) -> list[Delta]:
        return [{"content": "Done."}] if results(messages) else [{"reasoning": "Write."}, *call(0, "Write", file_path=str(target), content=text)]

    result, _ = played(Scripted(script), tmp_path, "write hello.txt")
    assert result["result"] == "Done." and target.read_text() == text


def test_parallel_reads_and_a_failing_tool(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"content of {name}")
    seen: list[list[str]] = []

    def script(messages: Messages) -> list[Delta]:
        seen.append(results(messages))
        if seen[-1]:
            return [{"content": "Read."}]
        first, second, third = (call(i, "Read", file_path=str(tmp_path / name)) for i, name in enumerate(("a.txt", "b.txt", "missing.txt")))
        return [{"content": "Reading."}, *(delta for three in zip(first, second, third, strict=True) for delta in three)]  # interleaved

    result, _ = played(Scripted(script), tmp_path, "read the files")
    assert result["result"] == "Read." and len(seen[-1]) == 3
    assert "content of a.txt" in seen[-1][0] and "content of b.txt" in seen[-1][1]
    assert "content of" not in seen[-1][2] and "does not exist" in seen[-1][2]


def test_a_command_that_fails(tmp_path: Path) -> None:
    def script(messages: Messages) -> list[Delta]:
        return [{"content": "It failed."}] if results(messages) else call(0, "Bash", command="echo so; echo bad >&2; exit 7", description="Fails")

    engine = Scripted(script)
    result, _ = played(engine, tmp_path, "run it", "--allowedTools", "Bash")
    (told,) = results(engine.turns[-1]["messages"])
    assert result["result"] == "It failed." and "7" in told and "so" in told and "bad" in told


def tools_in(turn: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in turn["tools"]]


def test_a_tool_that_is_searched_for(tmp_path: Path) -> None:
    """The model knows it once it was found, behind the others, and can call it."""
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "id": "c1", "source": ["1"], "metadata": {}, "outputs": [], "execution_count": None}],
                                    "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))  # fmt: skip

    def script(messages: Messages) -> list[Delta]:
        done = len(results(messages))
        return [
            call(0, "ToolSearch", query="select:NotebookEdit", max_results=1),
            call(0, "Read", file_path=str(notebook)),
            call(0, "NotebookEdit", notebook_path=str(notebook), cell_id="c1", new_source="2"),
            [{"content": "Edited."}],
        ][done]

    engine = Scripted(script)
    result, _ = played(engine, tmp_path, "change the cell")
    first, second = tools_in(engine.turns[0]), tools_in(engine.turns[1])
    assert result["result"] == "Edited." and json.loads(notebook.read_text())["cells"][0]["source"] in ("2", ["2"])
    assert second == [*first, "NotebookEdit"] and "DeferredToolPlaceholder" not in second


def test_a_search_that_only_anthropic_can_run(tmp_path: Path) -> None:
    """Claude Code asks for it in a request of its own, which must not fail the turn."""

    def script(messages: Messages) -> list[Delta]:
        return [{"content": "Nothing found."}] if results(messages) else call(0, "WebSearch", query="anything")

    engine = Scripted(script)
    result, trace = played(engine, tmp_path, "search", "--allowedTools", "WebSearch")
    assert result["result"] == "Nothing found." and {line["status"] for line in trace} == {200}
    assert any("only Anthropic's servers run" in note for line in trace for note in line.get("notes") or [])


def red_png() -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = part(b"IHDR", b"\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0")
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)) + part(b"IEND", b"")


def test_an_image_is_seen(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(red_png())

    def script(messages: Messages) -> list[Delta]:
        return [{"content": "Red."}] if results(messages) else call(0, "Read", file_path=str(tmp_path / "red.png"))

    engine = Scripted(script)
    result, _ = played(engine, tmp_path, "look at red.png")
    parts = [part for message in engine.turns[-1]["messages"] if isinstance(message["content"], list) for part in message["content"]]
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert result["result"] == "Red." and len(images) == 1 and images[0].startswith("data:image/")


def test_a_turn_after_a_refusal_that_passes(tmp_path: Path) -> None:
    engine, refusals = Scripted(lambda _: [{"content": "Here now."}]), [429, 503]

    def picky(peer: Peer) -> bool:
        if not peer.asked.json.get("tools") or not refusals:
            return False
        peer.whole(refusals.pop(), {"error": {"message": "busy"}}, "retry-after: 1\r\n")
        return True

    engine.before = picky
    result, trace = played(engine, tmp_path, "hello")
    assert result["result"] == "Here now." and refusals == []
    assert {429, 503} <= {line["status"] for line in trace}


def test_a_turn_that_breaks_in_the_middle(tmp_path: Path) -> None:
    """The engine dies after half an answer; Claude Code gets an error event, and asks again."""
    engine, deaths = Scripted(lambda _: [{"content": "Whole."}]), [1]

    def dies(peer: Peer) -> bool:
        if not peer.asked.json.get("tools") or not deaths:
            return False
        deaths.pop()
        peer.head()
        peer.chunk({"content": "Half of"})
        peer.writer.close()
        return True

    engine.before = dies
    result, trace = played(engine, tmp_path, "hello")
    assert result["is_error"] is False and result["result"].endswith("Whole.")
    assert any(line.get("error") for line in trace) and len(engine.turns) == 2


async def endless(peer: Peer, arrived: asyncio.Event, left: asyncio.Event) -> bool:
    peer.head()
    peer.chunk({"content": "a"})
    arrived.set()
    if await peer.left(30):
        left.set()
    return True


def test_a_client_that_is_killed_ends_the_generation(tmp_path: Path) -> None:
    async def work() -> None:
        arrived, left, engine = asyncio.Event(), asyncio.Event(), Scripted(lambda _: [])
        engine.before = lambda peer: endless(peer, arrived, left)
        async with bundled(engine) as bridge:
            process = await started(bridge, tmp_path, "-p", "go on for ever")
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(arrived.wait(), 60)
            # connect.sh stands between, so the client itself is its child.
            assert await (await asyncio.create_subprocess_exec("pkill", "-P", str(process.pid))).wait() == 0
            await asyncio.wait_for(left.wait(), 20)
            await process.wait()

    asyncio.run(asyncio.wait_for(work(), RUN_S))


def said(text: str) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"


def test_a_turn_is_cancelled_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """As the escape key does it, by the client's own protocol."""

    async def work() -> None:
        arrived, left, engine = asyncio.Event(), asyncio.Event(), Scripted(lambda _: [{"content": "Still here."}])
        engine.before = lambda peer: False if left.is_set() else endless(peer, arrived, left)
        async with bundled(engine) as bridge:
            words = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
            process = await started(bridge, tmp_path, *words)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(said("go on for ever"))
            await asyncio.wait_for(arrived.wait(), 60)
            process.stdin.write(json.dumps({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}).encode() + b"\n")
            await asyncio.wait_for(left.wait(), 20)
            process.stdin.write(said("and now?"))
            lines: list[dict[str, Any]] = []
            while not lines or lines[-1].get("result") != "Still here.":
                lines.append(json.loads(await asyncio.wait_for(process.stdout.readline(), 30)))
            process.stdin.close()
            await process.wait()
            assert [line["status"] for line in bridge.trace if line["route"] == "/v1/messages"] == [499, 200]

    asyncio.run(asyncio.wait_for(work(), RUN_S))


@pytest.mark.parametrize(
    ("words", "more", "enabled", "budget"),
    [
        ((), {}, True, 16384),  # adaptive, and high effort
        ((), {"CLAUDE_CODE_EFFORT_LEVEL": "low"}, True, 1024),
        ((), {"MAX_THINKING_TOKENS": "0"}, False, None),
        # Budgets are sent for names that Claude Code knows as having them.
        (("--model", "claude-sonnet-4-5"), {"MAX_THINKING_TOKENS": "5000"}, True, 5000),
    ],
)
def test_thinking(tmp_path: Path, words: tuple[str, ...], more: dict[str, str], enabled: bool, budget: int | None) -> None:
    engine = Scripted(lambda _: [{"reasoning": "Hm."}, {"content": "Yes."}])
    result, _ = played(engine, tmp_path, "think", *words, **more)
    (turn,) = engine.turns
    assert result["result"] == "Yes." and turn["model"] == "qwen38"
    assert turn["chat_template_kwargs"]["enable_thinking"] is enabled and turn.get("thinking_token_budget") == budget


def test_thinking_stays_with_its_turn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")

    def script(messages: Messages) -> list[Delta]:
        return [{"content": "Done."}] if results(messages) else [{"reasoning": "First I read."}, *call(0, "Read", file_path=str(tmp_path / "a.txt"))]

    engine = Scripted(script)
    played(engine, tmp_path, "read")
    (asked,) = (message for message in engine.turns[-1]["messages"] if message["role"] == "assistant")
    assert "First I read." in (asked.get("reasoning"), asked.get("reasoning_content"))


def test_each_prompt_begins_with_the_one_before(tmp_path: Path) -> None:
    """So that the engine's prefix cache holds it, over tools, thinking, and a session that is taken up again."""
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "CLAUDE.md").write_text("Be kind.\n")

    def script(messages: Messages) -> list[Delta]:
        steps: list[list[Delta]] = [
            [{"reasoning": "I read."}, *call(0, "Read", file_path=str(tmp_path / "a.txt"))],
            [{"reasoning": "I run."}, {"content": "Now run."}, *call(0, "Bash", command="echo hi", description="Says hi")],
            [{"reasoning": "I edit."}, *call(0, "Edit", file_path=str(tmp_path / "a.txt"), old_string="x", new_string="y")],
        ]
        return steps[len(results(messages))] if len(results(messages)) < 3 else [{"reasoning": "So."}, {"content": "Done."}]

    engine = Scripted(script)

    async def work() -> None:
        async with bundled(engine) as bridge:
            for words in ((), ("--continue",)):
                assert (await claude(bridge, tmp_path, "change it", *words, "--allowedTools", "Bash"))["result"] == "Done."

    asyncio.run(asyncio.wait_for(work(), RUN_S))
    assert len(engine.turns) == 5 and (tmp_path / "a.txt").read_text() == "y\n"
    for before, now in itertools.pairwise(engine.turns):
        assert now["messages"][: len(before["messages"])] == before["messages"]
        assert {key: before[key] for key in before if key != "messages"} == {key: now[key] for key in now if key != "messages"}


def test_a_prompt_of_200000_tokens(tmp_path: Path) -> None:
    engine = Scripted(lambda _: [{"content": "Long."}])
    result, trace = played(engine, tmp_path, "Summarise: " + "word " * 170_000, profile=MILLION)
    assert result["result"] == "Long." and result["is_error"] is False
    (usage,) = result["modelUsage"].values()
    assert usage["inputTokens"] + usage["cacheReadInputTokens"] > 200_000 and usage["contextWindow"] == 1_000_000
    assert not any(is_summary(turn["messages"]) for turn in engine.turns) and {line["status"] for line in trace} == {200}


def summarised(engine: Scripted, folder: Path) -> None:
    """A run in which Claude Code compacts after its first tool, and goes on."""
    (folder / "a.txt").write_text("some content\n" * 50)

    def script(messages: Messages) -> list[Delta]:
        if is_summary(messages):
            engine.prompt_tokens = 2000
            return [{"content": "<analysis>A.</analysis><summary>The user wants a.txt read. It was read.</summary>"}]
        if any(is_summary(turn["messages"]) for turn in engine.turns):
            return [{"content": "After all."}]
        return [{"content": "Not compacted."}] if results(messages) else call(0, "Read", file_path=str(folder / "a.txt"))

    engine.script = script
    result, _ = played(engine, folder, "read a.txt")
    assert result["result"] == "After all." and result["is_error"] is False
    assert sum(is_summary(turn["messages"]) for turn in engine.turns) == 1


def test_an_overflow_ends_in_a_compaction(tmp_path: Path) -> None:
    """The engine's own words for too long a prompt make Claude Code summarise the conversation and go on."""
    too_long = "This model's maximum context length is 262144 tokens. However, your prompt contains 270000 input tokens. Please reduce the length."
    engine = Scripted(lambda _: [])

    def picky(peer: Peer) -> bool:
        body: dict[str, Any] = peer.asked.json
        if not body.get("tools") or not results(body["messages"]) or is_summary(body["messages"]):
            return False
        peer.whole(400, {"error": {"message": too_long, "code": 400}})
        return True

    engine.before = picky
    summarised(engine, tmp_path)


def test_a_conversation_is_compacted_before_it_overflows(tmp_path: Path) -> None:
    """By the usage that the bridge tells, and the window that the bundle's connect.sh sets."""
    summarised(Scripted(lambda _: [], prompt_tokens=242_000), tmp_path)
