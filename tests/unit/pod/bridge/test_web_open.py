"""Routes that strangers may ask: probes, telemetry, preflights."""

from __future__ import annotations

import asyncio

from tests.unit.pod.bridge.net import Engine, Peer, eventually, pair, run

KEYED = {"keys": (("laptop", "KEY"),), "environ": {"KEY": "key-one"}}


def test_probes_are_answered_without_key_and_body() -> None:
    """mh-09."""

    async def work() -> None:
        engine = Engine()
        async with pair(engine, **KEYED) as bridge:
            client = await bridge.client()
            for method in ("HEAD", "GET"):
                for path in ("/", "/api/hello"):
                    client.send(method, path)
                    got = await client.get(method)
                    assert (got.status, got.body, got.headers["content-length"]) == (200, b"", "0")
            assert {asked.path for asked in engine.asked} <= {"/v1/models"} and bridge.lines == []

    run(work())


def test_telemetry_is_taken_and_forgotten() -> None:
    """mh-10."""

    async def work() -> None:
        engine = Engine()
        async with pair(engine, **KEYED) as bridge:
            client = await bridge.client()
            for path in ("/api/event_logging/batch", "/api/event_logging/v2/batch"):
                client.send("POST", path, {"events": ["who I am"]})
                got = await client.get()
                assert (got.status, got.json) == (200, {})
            client.send("POST", "/api/event_logging/batch", b"this is no JSON")
            assert (await client.get()).status == 200
            assert {asked.path for asked in engine.asked} <= {"/v1/models"} and bridge.lines == []
            assert (await bridge.ask("POST", "/api/event_logging", {})).status == 401
            assert (await bridge.ask("GET", "/api/event_logging/batch", None, {"x-api-key": "key-one"})).status == 405

    run(work())


def test_strangers_cannot_make_it_hold_large_bodies() -> None:
    async def work() -> None:
        async with pair(Engine(), **KEYED) as bridge:
            for method, path in (("POST", "/api/event_logging/batch"), ("OPTIONS", "/v1/messages"), ("GET", "/health")):
                got = await bridge.ask(method, path, b" " * (1 << 20))
                assert got.status in (200, 204)
                client = await bridge.client()
                client.send(method, path, None, {"content-length": str((1 << 20) + 1)})
                got = await client.get()
                assert (got.status, got.json["error"]["type"]) == (413, "request_too_large")
            assert bridge.app.server.held == 0

    run(work())


def test_a_preflight_needs_no_key_and_names_nobody() -> None:
    """mh-11: the browser refuses where the page's origin is not named in the answer."""

    async def work() -> None:
        asking = {"origin": "http://example.test", "access-control-request-method": "POST",
                  "access-control-request-headers": "x-api-key,anthropic-version,content-type"}  # fmt: skip
        async with pair(Engine(), **KEYED) as bridge:
            got = await bridge.ask("OPTIONS", "/v1/messages", None, asking)
            assert got.status == 204 and got.headers["access-control-allow-headers"] == asking["access-control-request-headers"]
            assert "POST" in got.headers["access-control-allow-methods"]
            assert "access-control-allow-origin" not in got.headers
        async with pair(Engine(), cors_origins=("http://example.test",), **KEYED) as bridge:
            got = await bridge.ask("OPTIONS", "/v1/messages", None, asking)
            assert got.headers["access-control-allow-origin"] == "http://example.test"

    run(work())


def test_bodies_that_are_too_much_together_are_refused_at_once() -> None:
    """Five clients that each send less than one may, and never finish."""

    async def work() -> None:
        async with pair(Engine(), max_body=1000) as bridge:
            clients = [await bridge.client() for _ in range(5)]
            for client in clients[:4]:
                client.send("POST", "/v1/messages", None, {"content-length": "1000"})
                client.writer.write(b" " * 999)
            await eventually(lambda: bridge.app.server.held == 4 * 999)
            clients[4].send("POST", "/v1/messages", None, {"content-length": "1000"})
            clients[4].writer.write(b" " * 999)
            got = await clients[4].get()
            assert (got.status, got.json["error"]["type"], got.headers["retry-after"]) == (529, "overloaded_error", "5")
            assert (await bridge.ask("GET", "/health")).status == 200
            for client in clients:
                client.close()
            await eventually(lambda: bridge.app.server.held == 0)

    run(work())


def test_the_list_of_models_does_not_wait_for_a_silent_engine_longer_than_clients_do() -> None:
    """Claude Code gives it 3 s."""

    async def silent(peer: Peer) -> None:
        await peer.left()

    async def work() -> None:
        async with pair(Engine(v1__models=silent)) as bridge:
            began = asyncio.get_running_loop().time()
            got = await bridge.ask("GET", "/v1/models?limit=1000", None, {"anthropic-version": "2023-06-01"})
            assert (got.status, got.json["data"]) == (200, []) and asyncio.get_running_loop().time() - began < 2.8

    run(work())
