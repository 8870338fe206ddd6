"""Claude Code as a user of a bundle runs it: the bridge by the bundle's manifest, the client by its `connect.sh`.

Needs `claude-code/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_client.sh` makes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pod.bridge.app import App
from pod.bridge.settings import Settings, from_manifest
from pod.contract import Manifest

from tests.support import ROOT
from tests.unit.pod.bridge.net import Bridge, Engine, Peer

PARTS = Path(os.environ.get("PODWRIGHT_REAL_PARTS_DIR") or Path.home() / ".cache" / "podwright" / "real-parts")
NODE = shutil.which("node") or str(PARTS / "node" / "bin" / "node")
CLAUDE = PARTS / "claude-code" / "node_modules" / ".bin" / "claude"
KEY = "test-key-of-the-bridge"
needs_claude = pytest.mark.skipif(not CLAUDE.exists(), reason=f"Claude Code is not installed: {CLAUDE} does not exist")
BUNDLES = ROOT / "tests" / "golden"
# A bare name, 262,144 tokens, reasoning and images; and one of a million tokens, whose name ends in [1m].
USUAL, MILLION, SMALL = "qwen38-2xa40", "nemotron-ada", "tiny-cpu"
RUN_S = 120.0
CHAT = "/v1/chat/completions"
SUMMARY = "detailed summary"  # in what Claude Code says when it compacts

Delta = dict[str, Any]
Messages = list[dict[str, Any]]
Script = Callable[[Messages], list[Delta]]


def call(index: int, name: str, **arguments: Any) -> list[Delta]:
    """A tool call as an engine streams it, its arguments in three pieces."""
    text = json.dumps(arguments)
    cuts = [text[: len(text) // 3], text[len(text) // 3 : len(text) // 2], text[len(text) // 2 :]]
    first = {"index": index, "id": f"chatcmpl-tool-{index}-{os.urandom(4).hex()}", "type": "function", "function": {"name": name, "arguments": ""}}
    return [{"tool_calls": [first]}, *({"tool_calls": [{"index": index, "function": {"arguments": cut}}]} for cut in cuts)]


def results(messages: Messages) -> list[str]:
    """What tools answered so far."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def is_summary(messages: Messages) -> bool:
    """Whether Claude Code compacts."""
    return SUMMARY in json.dumps(messages[-1])


def tokens_in(body: bytes) -> int:
    """As the scripted engine counts them: four bytes each."""
    return len(body) // 4


class Scripted(Engine):
    """An engine whose answer is a function of the conversation. Requests without tools are Claude Code's own small ones."""

    def __init__(self, script: Script, prompt_tokens: int | None = None) -> None:
        super().__init__(v1__chat__completions=self.answer, tokenize=lambda peer: peer.whole(200, {"count": tokens_in(peer.asked.body)}))
        self.script, self.prompt_tokens = script, prompt_tokens
        self.before: Callable[[Peer], bool | Awaitable[bool]] = lambda _: False

    async def answer(self, peer: Peer) -> None:
        """One answer; `before` says whether it gave another one."""
        handled = self.before(peer)
        if handled if isinstance(handled, bool) else await handled:
            return
        body = peer.asked.json
        deltas = self.script(body["messages"]) if body.get("tools") else [{"content": '{"title": "Test"}'}]
        usage = {"prompt_tokens": self.prompt_tokens or tokens_in(peer.asked.body), "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 16}}
        if not body.get("stream"):
            text = "".join(delta.get("content", "") for delta in deltas)
            peer.whole(200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage})
            return
        peer.head()
        peer.chunk({"role": "assistant", "content": ""}, usage={**usage, "completion_tokens": 0})
        for delta in deltas:
            peer.chunk(delta)
            await asyncio.sleep(0)
        peer.chunk({}, "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop", usage=usage)
        peer.raw(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
        peer.writer.write(b"0\r\n\r\n")

    @property
    def turns(self) -> list[dict[str, Any]]:
        """What the engine was asked in the conversation itself."""
        return [asked.json for asked in self.of(CHAT) if asked.json.get("tools")]


def settings_of(profile: str, engine: int, **changes: Any) -> Settings:
    """What a bundle's manifest says, with the engine on another port, and changes."""
    settings = from_manifest(Manifest.from_bytes((BUNDLES / profile / "manifest.json").read_bytes()))
    models = tuple(dataclasses.replace(model, upstream=f"http://127.0.0.1:{engine}") for model in settings.models)
    return dataclasses.replace(settings, models=models, host="127.0.0.1", port=0, **changes)


@contextlib.asynccontextmanager
async def bundled(engine: Engine | int, profile: str = USUAL, **changes: Any) -> AsyncIterator[Bridge]:
    """A bridge as the bundle sets it up."""
    lines: list[str] = []
    logged: list[str] = []
    port = engine if isinstance(engine, int) else await engine.start()
    app = App(settings_of(profile, port, **changes), environ={"PODWRIGHT_API_KEY": KEY}, write=lines.append, log=logged.append)
    _, own = await app.start()
    try:
        yield Bridge(app, own, lines, logged)
    finally:
        await app.stop(0.05)
        if isinstance(engine, Engine):
            engine.close()
        assert logged == [], logged


async def started(bridge: Bridge, folder: Path, *words: str, profile: str = USUAL, **more: str) -> asyncio.subprocess.Process:
    """`connect.sh ADDRESS --launch -- WORDS`, with what a machine may have set before."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environ = {"PATH": f"{CLAUDE.parent}:/usr/bin:/bin", "HOME": str(home), "PODWRIGHT_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-ant-of-somebody",
               "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", **more}  # fmt: skip
    script = BUNDLES / profile / "connect.sh"
    return await asyncio.create_subprocess_exec("bash", str(script), f"http://127.0.0.1:{bridge.port}", "--launch", "--", *words, env=environ, cwd=folder,
                                                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)  # fmt: skip


async def claude(bridge: Bridge, folder: Path, prompt: str, *words: str, profile: str = USUAL, **more: str) -> dict[str, Any]:
    """The JSON result of one run that gets its prompt on stdin."""
    process = await started(bridge, folder, "-p", "--permission-mode", "acceptEdits", "--output-format", "json", *words, profile=profile, **more)
    try:
        out, problems = await asyncio.wait_for(process.communicate(prompt.encode()), RUN_S - 10)
    except TimeoutError:
        process.kill()
        raise
    assert out, problems.decode()
    result: dict[str, Any] = json.loads(out)
    return result


def played(engine: Engine, folder: Path, prompt: str, *words: str, profile: str = USUAL, **more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result and the bridge's trace of one run."""
    found: list[Any] = []

    async def work() -> None:
        async with bundled(engine, profile) as bridge:
            found.extend((await claude(bridge, folder, prompt, *words, profile=profile, **more), bridge.trace))

    asyncio.run(asyncio.wait_for(work(), RUN_S))
    return found[0], found[1]
