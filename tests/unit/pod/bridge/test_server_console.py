"""The live page: its data over HTTP, and the page itself in a headless Chromium."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from pod.bridge.console import PAGE, engine_figures

from tests.unit.pod.bridge.net import REQUEST, STREAMED, Bridge, Client, Engine, Peer, pair, run

METRICS = b"""# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 12
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.425
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


async def endless(peer: Peer) -> None:
    if not peer.asked.json.get("stream"):
        peer.whole(429, {"error": {"message": "too much <b>at</b> once, sk-abcdefghijkl"}})
        return
    peer.head()
    for i in range(7):
        peer.chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": i + 1})
    await peer.left(30)


def engine() -> Engine:
    return Engine(v1__chat__completions=endless, metrics=lambda peer: peer.whole(200, METRICS))


async def busy(bridge: Bridge, headers: dict[str, str] | None = None) -> Client:
    """One error, and the client of a stream under way."""
    client = await bridge.client()
    client.send("POST", "/v1/messages", STREAMED, headers)
    await client.until(b'"a"')
    assert (await bridge.ask("POST", "/v1/messages", REQUEST, headers)).status == 429
    return client


def test_data_are_behind_the_key_and_the_page_is_not() -> None:
    async def work() -> None:
        async with pair(engine(), keys=(("laptop", "KEY"),), environ={"KEY": "one"}) as bridge:
            page = await bridge.ask("GET", "/console")
            assert page.status == 200 and page.body == PAGE and "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert (await bridge.ask("GET", "/console/data")).status == 401
            key = {"x-api-key": "one"}
            client = await busy(bridge, key)
            data = (await bridge.ask("GET", "/console/data", None, key)).json
            assert data["engine"] == {"running": 3.0, "waiting": 12.0, "kv_use": 0.425}
            assert data["requests"] == 1 and data["models"] == ["served/name"] and data["output_tokens"] == 7
            assert [(one["client"], one["tokens"]) for one in data["streams"]] == [("laptop", 7)]
            # The refused one without a key, and the engine's refusal, newest first; what looks like a secret is gone.
            assert [one["status"] for one in data["errors"]] == [429, 401] and "sk-abc" not in data["errors"][0]["error"]
            client.close()

    run(work())


def test_figures_of_other_engines() -> None:
    assert engine_figures("vllm:gpu_cache_usage_perc 0.5\nvllm:num_requests_running odd\nother 3\n") == {"kv_use": 0.5}
    both = 'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.7\n'
    assert engine_figures(both + 'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} 2\n') == {"kv_use": 0.7, "running": 3.0}


async def seen(bridge: Bridge, folder: Path) -> str:
    """The page as Chromium has it after a few seconds."""
    assert CHROMIUM is not None
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--virtual-time-budget=4000", "--dump-dom"]
    process = await asyncio.create_subprocess_exec(CHROMIUM, *words, f"http://127.0.0.1:{bridge.port}/console", stdout=asyncio.subprocess.PIPE,
                                                   stderr=asyncio.subprocess.DEVNULL)  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return re.sub(r"\s+", " ", out.decode())


@pytest.mark.real_client
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    async def work() -> None:
        async with pair(engine()) as bridge:
            client = await busy(bridge)
            page = await seen(bridge, tmp_path)
            assert '<main id="all">' in page and "translate, served/name, engine answers" in page
            for name, value in (("waiting", "12"), ("running", "3"), ("KV cache used", "42.5 %"), ("streams", "1"), ("tokens/s", "0")):
                assert f"<dt>{name}</dt><dd>{value}</dd>" in page
            assert "<td>429</td>" in page and "too much &lt;b&gt;at&lt;/b&gt; once" in page
            client.close()

    asyncio.run(asyncio.wait_for(work(), 90))


@pytest.mark.real_client
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_asks_for_the_key(tmp_path: Path) -> None:
    async def work() -> None:
        async with pair(engine(), keys=(("laptop", "KEY"),), environ={"KEY": "one"}) as bridge:
            page = await seen(bridge, tmp_path)
            assert '<form id="door">' in page and '<main id="all" hidden="">' in page

    asyncio.run(asyncio.wait_for(work(), 90))
