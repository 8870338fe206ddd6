"""Claude Code's way out of media that a server does not take: it removes the block and asks again, if it is told in its own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pod.bridge.claude import Delta, Messages, Scripted, call, needs_claude, played, results
from tests.unit.pod.bridge.net import Peer
from tests.unit.pod.bridge.test_server_real_client import red_png

pytestmark = [pytest.mark.real_client, needs_claude]
PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj
trailer<</Size 4/Root 1 0 R>>
%%EOF
"""


def reader_of(path: Path) -> Any:
    def script(messages: Messages) -> list[Delta]:
        return [{"content": "Went on."}] if results(messages) else call(0, "Read", file_path=str(path))

    return script


def test_a_pdf_that_nobody_here_reads_does_not_end_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pod.bridge.messages.pdf_reader", lambda: None)
    (tmp_path / "a.pdf").write_bytes(PDF)
    result, trace = played(Scripted(reader_of(tmp_path / "a.pdf")), tmp_path, "read a.pdf")
    assert result["result"] == "Went on."
    assert any("does not support PDF input" in line.get("error", "") for line in trace)


def test_an_image_for_a_model_without_eyes_does_not_end_the_session(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(red_png())
    engine = Scripted(reader_of(tmp_path / "red.png"))

    def blind(peer: Peer) -> bool:
        if "image_url" not in json.dumps(peer.asked.json):
            return False
        peer.whole(400, {"error": {"message": "served is not a multimodal model", "code": 400}})
        return True

    engine.before = blind
    result, trace = played(engine, tmp_path, "look at red.png")
    assert result["result"] == "Went on."
    assert any("Could not process image" in line.get("error", "") for line in trace)
