"""What goes to the engine as it is: the OpenAI routes in every mode, and /v1/messages in keepalive mode.

The bytes of an answer are not touched; pings stand between the frames of a stream. Of a request only the model's name is
replaced, and only where the engine does not know it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping

from pod.bridge import errors
from pod.bridge.codec import dumps
from pod.bridge.engine_answer import Answer
from pod.bridge.engines import Engines
from pod.bridge.errors import ApiError
from pod.bridge.exchange import Exchange, Request
from pod.bridge.gate import Gate, Visit, silence_of
from pod.bridge.keepalive import PingStream
from pod.bridge.live import HEAD, Live, Sweep
from pod.bridge.settings import Settings
from pod.bridge.translate import parsed_body

# Headers that belong to one connection, or that the bridge writes itself: the engine's are not handed on.
_OWN = frozenset((
    "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "te", "trailer", "upgrade", "date", "server",
    "request-id", "x-request-id",
))  # fmt: skip
_FORWARDED = ("anthropic-version", "anthropic-beta", "traceparent", "tracestate", "user-agent", "accept", "x-claude-code-session-id")


def forwarded_headers(request: Request, *, with_key: bool) -> dict[str, str]:
    """Headers for the engine. The client's key goes along only where the bridge asks for none itself."""
    headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    headers["x-request-id"] = request.request_id
    if with_key:
        if authorization := request.headers.get("authorization"):
            headers["authorization"] = authorization
        elif key := request.headers.get("x-api-key"):
            headers["authorization"] = f"Bearer {key}"
    return headers


async def _unless_dead(answer: Answer) -> Answer:
    """The same answer, read whole. Raises DeadEngineError where it says that the engine's core is gone."""
    body = await answer.read()
    error = errors.from_upstream(answer.status, answer.headers, body)
    if isinstance(error, errors.DeadEngineError):
        raise error
    return Answer.of(answer.status, answer.headers, body)


def client_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The engine's headers for the client."""
    return {name: value for name, value in headers.items() if name not in _OWN}


@dataclasses.dataclass
class Relays:
    """Routes that only pass through. `log` takes what a developer must see."""

    settings: Settings
    engines: Engines
    gate: Gate
    sweep: Sweep
    log: Callable[[str], None]
    forwarded: Callable[[Request], dict[str, str]]

    async def relay(self, exchange: Exchange) -> None:
        """POST to a route of the engine's."""
        request = exchange.request
        await self.engines.known()
        data = parsed_body(request.body)
        if not isinstance(data, dict):
            raise errors.InvalidRequestError("", "The request body must be a JSON object.")
        requested = data.get("model")
        record = request.record
        record.model = requested if isinstance(requested, str) else ""
        record.is_stream = data.get("stream") is True

        async def ask(_: bool) -> Answer:
            match = self.engines.names.resolve(record.model)
            body = request.body
            if isinstance(requested, str) and requested != match.upstream_name and match.upstream_name:
                body = dumps({**data, "model": match.upstream_name})
                record.notes.append(f"model {requested[:100]} became {match.upstream_name}")
            answer = await self.engines.of(match.model).send("POST", request.target, body, self.forwarded(request))
            record.engine_id = answer.headers.get("x-request-id", "")
            return await _unless_dead(answer) if answer.status >= 500 and self.gate.file is not None else answer

        visit = Visit(self.gate, record.model, record)
        if not record.is_stream:
            await self._whole(exchange, lambda hold: visit.through(ask, hold))
            return
        live = Live(exchange, PingStream(anthropic=request.path == "/v1/messages"), self.sweep, record, self.log)
        try:
            answer = await visit.through(ask, live.hold)
            request.body = b""
            if answer.is_stream and answer.status == 200:
                live.attach(answer, {**HEAD, **client_headers(answer.headers)})
                return
            await self._no_stream(exchange, live, answer)
        except ApiError as error:
            live.fail(error)
        except Exception as error:
            self.log(repr(error))
            live.fail(ApiError(500, "The bridge failed on this request."))

    async def _no_stream(self, exchange: Exchange, live: Live, answer: Answer) -> None:
        """An engine that does not stream although it was asked to: mostly an error, handed on as it is while that can be."""
        body = await answer.read()
        if live.detach():
            exchange.answer(answer.status, body, client_headers(answer.headers))
        else:
            live.fail(errors.from_upstream(answer.status, answer.headers, body))

    async def _whole(self, exchange: Exchange, ask: Callable[[Callable[[bool], None]], Awaitable[Answer]]) -> None:
        try:
            async with silence_of(self.settings.silence_s) as hold:
                answer = await ask(hold)
                body = await answer.read()
        except TimeoutError:
            raise errors.silent(self.settings.silence_s) from None
        exchange.answer(answer.status, body, client_headers(answer.headers))
