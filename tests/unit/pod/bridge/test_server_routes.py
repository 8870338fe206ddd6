"""Routes, keys, models, counts, relays: a bridge and an engine on real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pod.bridge.app import App, keys_of
from pod.bridge.settings import Model, Settings, SettingsError

from tests.unit.pod.bridge.net import REQUEST, STREAMED, Client, Engine, Peer, bridge_to, pair, run

ANTHROPIC = {"anthropic-version": "2023-06-01"}
ANSWER = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}


def whole(peer: Peer) -> None:
    peer.whole(200, ANSWER)


def test_whole_message() -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=whole)
        async with pair(engine) as bridge:
            got = await bridge.ask("POST", "/v1/messages?beta=true", {**REQUEST, "model": "claude-whatever"}, ANTHROPIC)
            assert got.status == 200 and got.json["content"] == [{"type": "text", "text": "Hello."}]
            assert got.json["model"] == "claude-whatever" and got.json["usage"]["input_tokens"] == 9
            assert got.headers["request-id"].startswith("req_") and got.json["id"] == "msg_" + got.headers["request-id"][4:]
            asked = engine.of("/v1/chat/completions")[0]
            assert asked.json["model"] == "served/name" and asked.headers["x-request-id"] == got.headers["request-id"]
            assert bridge.trace[0]["input"] == 9 and bridge.trace[0]["stop"] == "end_turn"

    run(work())


def test_own_routes_do_not_need_the_engine() -> None:
    async def work() -> None:
        async with bridge_to(9) as bridge:
            head = await bridge.ask("HEAD", "/")
            assert (head.status, head.body) == (200, b"")
            assert (await bridge.ask("GET", "/health")).json == {"status": "ok"}
            ready = await bridge.ask("GET", "/ready")
            assert ready.status == 503 and ready.json["reason"]
            metrics = await bridge.ask("GET", "/metrics")
            assert b"podwright_bridge_engine_up 0\n" in metrics.body
            refused = await bridge.ask("POST", "/v1/messages", REQUEST)
            assert refused.status == 503 and refused.json["error"]["type"] == "overloaded_error"
            assert refused.headers["retry-after"] == "5" and refused.json["request_id"] == refused.headers["request-id"]

    run(work())


def test_ready_follows_the_engine() -> None:
    async def work() -> None:
        async with pair(Engine()) as bridge:
            assert (await bridge.ask("GET", "/ready")).status == 200
        engine = Engine(health=lambda peer: peer.whole(503, b""))
        async with pair(engine) as bridge:
            answers = await asyncio.gather(*(bridge.ask("GET", "/ready") for _ in range(20)))
            assert {got.status for got in answers} == {503}
            assert len(engine.of("/health")) == 1

    run(work())


def test_unknown_route_and_method() -> None:
    async def work() -> None:
        async with pair(Engine()) as bridge:
            client = await bridge.client()
            for method, path, status, kind in (
                ("GET", "/nope", 404, "not_found_error"),
                ("GET", "/v1/messages", 405, "invalid_request_error"),
            ):
                client.send(method, path)
                got = await client.get()
                assert (got.status, got.json["error"]["type"]) == (status, kind)
            client.send("GET", "/health")
            assert (await client.get()).status == 200  # on the same connection
            assert (await bridge.ask("POST", "/nope", {"a": 1})).status == 404

    run(work())


@pytest.mark.parametrize(
    "shown", [{"x-api-key": "key-one"}, {"authorization": "Bearer key-one"}, {"authorization": "bearer key-one", "x-api-key": "wrong"}]
)
def test_right_key(shown: dict[str, str]) -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=whole)
        async with pair(engine, keys=(("laptop", "KEY"), ("ci", "OTHER")), environ={"KEY": "key-one", "OTHER": "key-two"}) as bridge:
            assert (await bridge.ask("POST", "/v1/messages", REQUEST, shown)).status == 200
            assert bridge.trace[0]["client"] == "laptop"
            assert "authorization" not in engine.of("/v1/chat/completions")[0].headers
            assert all("key-one" not in line for line in bridge.lines)

    run(work())


@pytest.mark.parametrize(
    "shown", [{}, {"x-api-key": "key-on"}, {"authorization": "Basic key-one"}, {"authorization": "Bearer "}, {"x-api-key": ""}]
)
def test_wrong_key(shown: dict[str, str]) -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=whole)
        async with pair(engine, keys=(("laptop", "KEY"),), environ={"KEY": "key-one"}) as bridge:
            for method, path in (
                ("POST", "/v1/messages"),
                ("GET", "/v1/models"),
                ("GET", "/metrics"),
                ("POST", "/tokenize"),
                ("GET", "/nope"),
            ):
                got = await bridge.ask(method, path, REQUEST if method == "POST" else None, shown)
                assert (got.status, got.json["error"]["type"]) == (401, "authentication_error")
            for path in ("/health", "/ready", "/"):
                assert (await bridge.ask("GET", path)).status == 200
            assert engine.of("/v1/chat/completions") == []

    run(work())


def test_key_that_is_not_set_is_refused() -> None:
    settings = Settings((Model(("m",), "http://127.0.0.1:1"),), keys=(("laptop", "NOT_SET"),))
    with pytest.raises(SettingsError, match="NOT_SET"):
        keys_of(settings, {"NOT_SET": " "})


def test_without_keys_the_clients_key_is_the_engines_affair() -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=whole)
        async with pair(engine) as bridge:
            await bridge.ask("POST", "/v1/messages", REQUEST, {"x-api-key": "abc"})
            await bridge.ask("POST", "/v1/chat/completions", REQUEST, {"authorization": "Bearer def"})
            assert [asked.headers["authorization"] for asked in engine.of("/v1/chat/completions")] == ["Bearer abc", "Bearer def"]
        async with pair(engine, environ={"VLLM_API_KEY": "engine-key"}) as bridge:
            await bridge.ask("POST", "/v1/messages", REQUEST, {"x-api-key": "abc"})
            assert engine.of("/v1/chat/completions")[-1].headers["authorization"] == "Bearer engine-key"

    run(work())


def test_web_pages() -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=whole), cors_origins=("https://good.test",)) as bridge:
            bad = await bridge.ask("POST", "/v1/messages", REQUEST, {"origin": "https://evil.test"})
            assert bad.status == 403 and "access-control-allow-origin" not in bad.headers
            rebound = await bridge.ask("POST", "/v1/messages", REQUEST, {"origin": "http://evil.test:8080", "host": "evil.test:8080"})
            assert rebound.status == 403
            own = await bridge.ask("POST", "/v1/messages", REQUEST, {"origin": "http://localhost:8080", "host": "localhost:8080"})
            assert own.status == 200
            good = await bridge.ask("POST", "/v1/messages", REQUEST, {"origin": "https://good.test"})
            assert good.status == 200 and good.headers["access-control-allow-origin"] == "https://good.test"
            asked = await bridge.ask(
                "OPTIONS", "/v1/messages", None, {"origin": "https://good.test", "access-control-request-headers": "x-api-key"}
            )
            assert asked.status == 204 and asked.headers["access-control-allow-headers"] == "x-api-key"
            refused = await bridge.ask("OPTIONS", "/v1/messages", None, {"origin": "https://evil.test"})
            assert refused.status == 204 and "access-control-allow-origin" not in refused.headers

    run(work())


def test_models_in_both_shapes() -> None:
    async def work() -> None:
        model = Model(("served",), "", aliases=("a", "b", "org/c"))
        engine = Engine()
        port = await engine.start()
        async with bridge_to(port, model=Model(model.names, f"http://127.0.0.1:{port}", model.aliases)) as bridge:
            openai = (await bridge.ask("GET", "/v1/models")).json
            assert openai["object"] == "list" and openai["data"][0]["max_model_len"] == 4096
            page = (await bridge.ask("GET", "/v1/models?limit=2", None, ANTHROPIC)).json
            assert [entry["id"] for entry in page["data"]] == ["served", "a"] and page["has_more"] is True
            rest = (await bridge.ask("GET", f"/v1/models?limit=1000&after_id={page['last_id']}", None, ANTHROPIC)).json
            assert [entry["id"] for entry in rest["data"]] == ["b", "org/c"] and rest["has_more"] is False
            assert (await bridge.ask("GET", "/v1/models?limit=0", None, ANTHROPIC)).status == 400
            one = await bridge.ask("GET", "/v1/models/org%2Fc", None, ANTHROPIC)
            assert one.json["id"] == "org/c" and one.json["type"] == "model"
            assert (await bridge.ask("GET", "/v1/models/a")).json["object"] == "model"
            assert (await bridge.ask("GET", "/v1/models/zzz")).status == 404
        engine.close()

    run(work())


def test_count_tokens() -> None:
    async def work() -> None:
        engine = Engine(tokenize=lambda peer: peer.whole(200, {"count": 41, "tokens": [1] * 41}))
        body = {"model": "m", "messages": REQUEST["messages"], "system": "s", "tools": [{"name": "t", "input_schema": {"type": "object"}}]}
        async with pair(engine) as bridge:
            assert (await bridge.ask("POST", "/v1/messages/count_tokens?beta=true", body)).json == {"input_tokens": 41}
            asked = engine.of("/tokenize")[0].json
            assert asked["messages"][0] == {"role": "system", "content": "s"} and asked["tools"][0]["function"]["name"] == "t"
            del engine.answers["/tokenize"]
            assert (await bridge.ask("POST", "/v1/messages/count_tokens", body)).json["input_tokens"] > 0
            assert "the count is an estimate" in bridge.trace[-1]["notes"]
            bad = await bridge.ask("POST", "/v1/messages/count_tokens", {"messages": []})
            assert bad.status == 400

    run(work())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/tokenize"])
def test_relayed_as_it_is(path: str) -> None:
    async def work() -> None:
        odd = b'{"choices" : [ ],  "x":1e2}'
        engine = Engine(**{path[1:].replace("/", "__"): lambda peer: peer.whole(200, odd, "x-own: yes\r\n")})
        async with pair(engine) as bridge:
            sent = b'{ "model":"served/name", "n":1 }'
            got = await bridge.ask("POST", path, sent)
            assert (got.status, got.body, got.headers["x-own"]) == (200, odd, "yes")
            assert engine.of(path)[0].body == sent
            await bridge.ask("POST", path + "?a=b", {"model": "claude-alias", "n": 1})
            assert engine.of(path)[1].json == {"model": "served/name", "n": 1} and engine.of(path)[1].path == path + "?a=b"

    run(work())


def test_relayed_error_keeps_its_bytes() -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=lambda peer: peer.whole(422, b'{"detail": "odd"}'))
        async with pair(engine) as bridge:
            for body in (REQUEST, STREAMED):
                got = await bridge.ask("POST", "/v1/chat/completions", body)
                assert (got.status, got.body) == (422, b'{"detail": "odd"}')
            assert (await bridge.ask("POST", "/v1/completions", b"[1]")).status == 400
            assert (await bridge.ask("POST", "/v1/completions", b"{")).status == 400

    run(work())


def test_metrics_are_the_engines_and_its_own() -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=lambda peer: peer.text("Hi"))) as bridge:
            await bridge.ask("POST", "/v1/messages", STREAMED)
            text = (await bridge.ask("GET", "/metrics")).body.decode()
            assert text.startswith("vllm:num_requests_running 3\n")
            for line in (
                'requests_total{route="/v1/messages",status="200"} 1',
                'tokens_total{kind="cached"} 16',
                'tokens_total{kind="input"} 4',
                "first_token_seconds_count 1",
                "engine_up 1",
            ):
                assert f"podwright_bridge_{line}\n" in text

    run(work())


def test_bad_http_and_large_requests() -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=whole), max_body=1000) as bridge:
            client = await bridge.client()
            client.writer.write(b"NONSENSE\r\n\r\n")
            assert (await client.get()).status == 400
            client = await bridge.client()
            client.writer.write(b"GET /health HTTP/1.1\r\nx: " + b"y" * 70000 + b"\r\n\r\n")
            assert (await client.get()).status == 431
            client = await bridge.client()
            client.send("POST", "/v1/messages", None, {"content-length": "1001"})
            got = await client.get()
            assert (got.status, got.json["error"]["type"]) == (413, "request_too_large")
            client = await bridge.client()
            client.send("POST", "/v1/messages", None, {"transfer-encoding": "chunked"})
            client.writer.write(b"200\r\n" + b" " * 512 + b"\r\n" + b"200\r\n" + b" " * 512 + b"\r\n")
            assert (await client.get()).status == 413
            assert (await bridge.ask("POST", "/v1/messages", b"{not json")).status == 400
            assert bridge.app.server.held == 0

    run(work())


def test_pipelined_chunked_and_expecting_requests() -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=whole)) as bridge:
            client = await bridge.client()
            for _ in range(20):
                client.send("POST", "/v1/messages", REQUEST)
                client.send("GET", "/health")
            for _ in range(20):
                assert (await client.get()).json["type"] == "message"
                assert (await client.get()).json == {"status": "ok"}
            body = json.dumps(REQUEST).encode()
            client.send("POST", "/v1/messages", None, {"transfer-encoding": "chunked", "expect": "100-continue"})
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            for i in range(len(body)):
                client.writer.write(b"1\r\n" + body[i : i + 1] + b"\r\n")
                await asyncio.sleep(0)
            client.writer.write(b"0\r\n\r\n")
            assert (await client.get()).status == 200

    run(work())


def test_http_1_0_and_an_upgrade_that_is_not_taken() -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=lambda peer: peer.text("Hi"))) as bridge:
            body = json.dumps(STREAMED).encode()
            client = await bridge.client()
            client.writer.write(b"POST /v1/messages HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            data = await client.reader.read()
            assert b"transfer-encoding" not in data and data.endswith(b'"message_stop"}\n\n')
            client = await bridge.client()
            client.send(
                "POST", "/v1/messages", STREAMED, {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "x"}
            )
            assert (await client.get()).events[-1] == "message_stop"

    run(work())


def test_settings_change_while_it_runs() -> None:
    async def work() -> None:
        async def slowly(peer: Peer) -> None:
            peer.head()
            peer.chunk({"content": "a"})
            await asyncio.sleep(0.3)
            peer.chunk({"content": "b"}, "stop")
            peer.done()

        first, second = Engine(v1__chat__completions=slowly), Engine(v1__chat__completions=whole)
        other = await second.start()
        async with pair(first) as bridge:
            client: Client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.until(b'"a"')
            model = Model(("new",), bridge.app.settings.models[0].upstream)
            bridge.app.apply(Settings((model, Model(("other",), f"http://127.0.0.1:{other}")), port=0))
            while piece := await client.piece():
                got.body += piece
            assert got.events[-1] == "message_stop"
            assert (await bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "other"})).status == 200
            names: Any = (await bridge.ask("GET", "/v1/models")).json["data"]
            assert [entry["id"] for entry in names] == ["new", "other"]
            with pytest.raises(SettingsError):
                bridge.app.apply(Settings((model,), keys=(("a", "NOT_SET"),)))
            assert isinstance(bridge.app, App) and bridge.app.settings.keys == ()
        second.close()

    run(work())
