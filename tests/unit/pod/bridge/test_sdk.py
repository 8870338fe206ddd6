"""Every recorded stream, and some made at random, through the parsers of the official SDKs for Python and TypeScript.

Needs, in PODWRIGHT_REAL_PARTS_DIR, a virtual environment `sdk/` with the package `anthropic`, and a folder `sdk-node/` in which
`npm install @anthropic-ai/sdk` was run.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pod.bridge.events import MessageStream
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.claude import NODE, PARTS
from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.play import cases

HERE = Path(__file__).parent
READERS = {
    "python": (PARTS / "sdk" / "bin" / "python", [str(PARTS / "sdk" / "bin" / "python"), str(HERE / "sdk_reader.py")]),
    "node": (PARTS / "sdk-node" / "node_modules", [NODE, str(HERE / "sdk_reader.mjs"), str(PARTS / "sdk-node")]),
}
pytestmark = pytest.mark.real_sdk


@pytest.fixture(params=READERS)
def read_by_sdk(request: pytest.FixtureRequest) -> Callable[[list[Path]], list[dict[str, Any]]]:
    needed, command = READERS[request.param]
    if not needed.exists():
        pytest.skip(f"the official SDK is not installed: {needed} does not exist")

    def read(streams: list[Path]) -> list[dict[str, Any]]:
        done = subprocess.run([*command, *streams], capture_output=True, text=True, timeout=300, check=True)
        return [json.loads(line) for line in done.stdout.strip().split("\n")]

    return read


def compare(stream: bytes, told: dict[str, Any]) -> None:
    judge = judged(stream)
    assert judge.faults == []
    assert "crash" not in told, told
    if judge.error:
        assert told["body"]["error"] == judge.error
        return
    message = told["message"]
    blocks = [[b["type"], b.get("text") or b.get("thinking") or b["input"]] for b in message["content"]]
    assert blocks == [[b["type"], b.get("text") or b.get("thinking") or b["input"]] for b in judge.blocks]
    assert message["stop_reason"] == judge.deltas[-1]["delta"]["stop_reason"]
    assert judge.deltas[-1]["usage"].items() <= message["usage"].items()


def test_recorded_streams(read_by_sdk: Callable[[list[Path]], list[dict[str, Any]]]) -> None:
    files = [case.file("expected.sse") for case in cases() if case.file("expected.sse").exists()]
    assert len(files) > 50
    for path, told in zip(files, read_by_sdk(files), strict=True):
        compare(path.read_bytes(), told)


def random_upstream(chance: random.Random) -> bytes:
    arguments = json.dumps(
        {"text": "".join(chance.choice('ab"\\\n\u2028é😀{}') for _ in range(chance.randint(0, 60)))}, ensure_ascii=chance.random() < 0.5
    )
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for _ in range(chance.randint(0, 9)):
        deltas.append(chance.choice([{"content": chance.choice(["a", " ", "\n\n", "é\u2028"])}, {"reasoning": "hm"}]))
    for i in range(chance.randint(0, 3)):
        deltas.append({"tool_calls": [{"index": i, "id": f"c{i}", "function": {"name": "run", "arguments": ""}}]})
        size = chance.randint(1, 30)
        deltas += [
            {"tool_calls": [{"index": i, "function": {"arguments": arguments[k : k + size]}}]} for k in range(0, len(arguments), size)
        ]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": chance.choice(["stop", "length", "tool_calls"])}]})
    cut = chance.choice([len(chunks), len(chunks), chance.randint(0, len(chunks))])
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks[:cut]) + (
        b"data: [DONE]\n\n" if cut == len(chunks) else b""
    )


def test_random_streams(tmp_path: Path, read_by_sdk: Callable[[list[Path]], list[dict[str, Any]]]) -> None:
    files = []
    for seed in range(200):
        stream = MessageStream(Turn("m", max_tokens=9), "msg_1", usage_s=0)
        data = random_upstream(random.Random(seed))
        files.append(tmp_path / f"{seed}.sse")
        files[-1].write_bytes(b"".join(stream.feed(data) + stream.flush()))
    for path, told in zip(files, read_by_sdk(files), strict=True):
        compare(path.read_bytes(), told)
