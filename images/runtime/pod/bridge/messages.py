"""/v1/messages and /v1/messages/count_tokens in translate and native mode: what is asked of the engine, and asked again.

An engine's refusal is answered by a better question where one is known: without a thinking budget, with a shorter answer, or
for the model that it serves now. Everything else goes to the client.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from pod.bridge import count, errors, native, requests_editing, size, translate
from pod.bridge.answers import Usage, id_in
from pod.bridge.codec import BadJsonError, dumps, loads
from pod.bridge.engine_answer import Answer
from pod.bridge.engines import Engines
from pod.bridge.errors import ApiError
from pod.bridge.events import MessageStream
from pod.bridge.exchange import Exchange, Request
from pod.bridge.gate import Gate, Visit, silence_of
from pod.bridge.gathering import gathered, looks_streamed
from pod.bridge.live import Live, Sweep
from pod.bridge.pdf import PdfReader, pdf_reader
from pod.bridge.settings import Settings
from pod.bridge.stats import Record
from pod.bridge.translate import Translation

MAX_ERROR = 1 << 20
# Counting a prompt of a million tokens took an engine's tokenizer seconds, never a minute.
COUNT_S = 60.0
# Each better question can be needed once: another model, no budget, a shorter answer.
MAX_QUESTIONS = 4


class Protocol(NamedTuple):
    """How the engine is asked, and how its answers are read: the makers of requests and of counts with their paths, and the readers."""

    path: str
    make: Callable[..., Translation]
    count_path: str
    make_count: Callable[..., Translation]
    stream: Callable[..., MessageStream | native.NativeStream]
    whole: Callable[..., tuple[dict[str, Any], tuple[str, ...]]]


def protocol_of(body: Any, mode: str) -> Protocol:
    """The engine's own Messages API in native mode, its chat API otherwise; and for an answer that is to continue the assistant's last
    message, which vLLM's Messages API begins anew."""
    if mode == "native" and not _is_to_be_continued(body):
        return Protocol("/v1/messages", native.native_request, "/v1/messages/count_tokens", native.native_count_request,
                        native.NativeStream, native.mended_message)  # fmt: skip
    return Protocol("/v1/chat/completions", translate.chat_request, "/tokenize", count.tokenize_request,
                    MessageStream, translate.completion_message)  # fmt: skip


def _is_to_be_continued(body: Any) -> bool:
    messages = body.get("messages") if isinstance(body, dict) else None
    return isinstance(messages, list) and bool(messages) and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant"


class Question:
    """A client's request, and what is `made` of it for the engine that is loaded now. `counted` are its input tokens where its
    context edits hang on them and the engine counted."""

    def __init__(self, body: Any, protocol: Protocol, pdf: PdfReader | None, *, is_slow: bool, is_count: bool) -> None:
        self._body, self._pdf, self._is_slow, self._is_count = body, pdf, is_slow, is_count
        self.protocol = protocol
        self.counted: int | None = None
        self.made: Translation

    async def read(self, settings: Settings, engines: Engines) -> Translation:
        """Makes it for the names as they are now. Raises InvalidRequestError."""
        arguments = (self._body, settings, engines.names, self._pdf, self.counted)
        make = self.protocol.make_count if self._is_count else self.protocol.make
        self.made = await asyncio.to_thread(make, *arguments) if self._is_slow else make(*arguments)
        return self.made

    def unedited(self) -> Question:
        """The count of the same request without its context edits."""
        return Question({**self._body, "context_management": None}, self.protocol, self._pdf, is_slow=self._is_slow, is_count=True)


@dataclasses.dataclass
class Messages:
    """The two routes. `log` takes what a developer must see."""

    settings: Settings
    engines: Engines
    gate: Gate
    sweep: Sweep
    log: Callable[[str], None]
    forwarded: Callable[[Request], dict[str, str]]

    def __post_init__(self) -> None:
        self._pdf = pdf_reader()

    async def _translated(self, request: Request, *, is_count: bool = False) -> Question:
        await self.engines.known()
        has_pdf = self._pdf is not None and b"application/pdf" in request.body
        body = translate.parsed_body(request.body)
        question = Question(body, protocol_of(body, self.settings.mode), self._pdf, is_slow=has_pdf, is_count=is_count)
        request.body = b""
        if requests_editing.wants_count(body):
            unedited = question.unedited()
            await unedited.read(self.settings, self.engines)
            question.counted = await self._counted(unedited, request)
        made = await question.read(self.settings, self.engines)
        record = request.record
        record.model, record.is_stream = made.turn.model, made.turn.stream
        record.notes += made.notes
        return question

    async def messages(self, exchange: Exchange) -> None:
        """POST /v1/messages."""
        request = exchange.request
        question = await self._translated(request)
        message_id = request.record.message_id = "msg_" + request.request_id.removeprefix("req_")
        turn = question.made.turn
        if not turn.stream:
            await self._whole(exchange, question, message_id)
            return
        live = Live(exchange, question.protocol.stream(turn, message_id, self.settings.usage_s), self.sweep, request.record, self.log)
        try:
            answer = await self._answer(question, request, live.hold)
        except ApiError as error:
            live.fail(error)
        except Exception as error:
            self.log(repr(error))
            live.fail(ApiError(500, "The bridge failed on this request."))
        else:
            live.attach(answer)

    async def _whole(self, exchange: Exchange, question: Question, message_id: str) -> None:
        body = await self._body(question, exchange.request)
        record = exchange.request.record
        record.got_first()
        turn = question.made.turn
        try:
            data = loads(body)
        except BadJsonError:
            if not looks_streamed(body):
                raise ApiError(502, f"The engine's answer is no JSON: {errors.text_of(body[:500])}") from None
            data = {}
            message, notes = gathered(question.protocol.stream(turn, message_id, 0), body)
        else:
            message, notes = question.protocol.whole(data, turn, message_id)
        record.notes += notes
        record.engine_id = record.engine_id or id_in(data)
        record.stop = message["stop_reason"]
        record.usage = _usage_in(message["usage"])
        exchange.answer_json(200, message)

    async def _body(self, question: Question, request: Request) -> bytes:
        try:
            async with silence_of(self.settings.silence_s) as hold:
                return await (await self._answer(question, request, hold)).read()
        except TimeoutError:
            raise errors.silent(self.settings.silence_s) from None

    # --- asking

    async def _answer(self, question: Question, request: Request, hold: Callable[[bool], None]) -> Answer:
        """The engine's answer, as soon as there is an engine to ask."""

        async def ask(waited: bool) -> Answer:
            if waited:
                await question.read(self.settings, self.engines)
            return await self._ask(question, request)

        return await Visit(self.gate, question.made.turn.model, request.record).through(ask, hold)

    async def _ask(self, question: Question, request: Request) -> Answer:
        """The engine's answer with status 200. Raises ApiError."""
        made = question.made
        upstream, body = self.engines.of(made.model), made.body
        if made.model.upstream in self.engines.no_budget:
            body = _without_budget(body, request.record)
        await self._check_size(question, request)
        headers = self.forwarded(request)
        for _ in range(MAX_QUESTIONS):
            try:
                answer = await upstream.send("POST", question.protocol.path, dumps(body), headers)
            except ApiError as error:
                if error.status == 503:
                    self.engines.forget(made.model)
                raise
            request.record.engine_id = answer.headers.get("x-request-id", "")
            if answer.status == 200:
                return answer
            refusal = await answer.read(MAX_ERROR)
            better = await self._better(question, body, answer.status, refusal, request)
            if better is None:
                raise await self._told(answer, refusal, question, request)
            body = better
        raise errors.from_upstream(answer.status, answer.headers, refusal)

    async def _better(self, question: Question, body: dict[str, Any], status: int, refusal: bytes,
                      request: Request) -> dict[str, Any] | None:  # fmt: skip
        """A request that the engine will rather take, or None."""
        made = question.made
        record, text = request.record, errors.text_of(refusal)
        if errors.refuses_budget(status, text) and (lighter := _without_budget(body, record)) != body:
            self.engines.no_budget.add(made.model.upstream)
            return lighter
        if status == 404 and not self.settings.models[0].names:
            self.engines.forget(made.model)
            await self.engines.known()
            name = self.engines.names.resolve(made.turn.model).upstream_name
            return {**body, "model": name} if name != body["model"] else None
        overflow = errors.overflow_of(text) if status == 400 else None
        if overflow is not None and not overflow.exact and (prompt := await self._counted(question, request)) is not None:
            overflow = overflow.counted(prompt)
        tokens = overflow.lowered() if overflow is not None else None
        if overflow is None or tokens is None or tokens >= body["max_tokens"]:
            return None
        record.notes.append(f"max_tokens {body['max_tokens']} became {tokens}: no more fits behind a prompt of {overflow.prompt} tokens")
        return _shorter(body, tokens)

    async def _told(self, answer: Answer, refusal: bytes, question: Question, request: Request) -> ApiError:
        """The client's error, with the prompt's real size where the engine stopped counting."""
        overflow = errors.overflow_of(errors.text_of(refusal)) if answer.status in (400, 413, 422) else None
        prompt = await self._counted(question, request) if overflow is not None and not overflow.exact else None
        is_clients_key = not self.settings.keys and not self.engines.of(question.made.model).key
        return errors.from_upstream(answer.status, answer.headers, refusal, prompt, is_clients_key=is_clients_key)

    async def _check_size(self, question: Question, request: Request) -> None:
        """Raises ApiError for a prompt that must not reach the engine."""
        turn = question.made.turn
        if size.wants_count(turn, self.settings):
            error = size.too_long(turn, self.settings, await self._counted(question, request))
            if error is not None:
                raise error

    async def _counted(self, question: Question, request: Request) -> int | None:
        """Tokens of the prompt by the engine's tokenizer; None where it has none or does not answer."""
        keep = ("model", "messages", "tools", "system", "chat_template_kwargs", "add_generation_prompt", "continue_final_message")
        made, path, headers = question.made, question.protocol.count_path, self.forwarded(request)
        asked = {key: made.body[key] for key in keep if key in made.body}
        try:
            status, body = await self.engines.of(made.model).fetch("POST", path, dumps(asked), headers, seconds=COUNT_S, extra=True)
            return count.count_in(body) if status == 200 else None
        except ApiError:
            return None

    # --- counting

    async def count_tokens(self, exchange: Exchange) -> None:
        """POST /v1/messages/count_tokens: the engine's count, or an estimate where it cannot count."""
        request = exchange.request
        question = await self._translated(request, is_count=True)
        made, path = question.made, question.protocol.count_path
        tokens: int | None = None
        try:
            status, body = await self.engines.of(made.model).fetch("POST", path, dumps(made.body), self.forwarded(request), seconds=COUNT_S)
            if status == 200:
                tokens = count.count_in(body)
            elif overflow := errors.overflow_of(errors.text_of(body)):
                tokens = overflow.prompt
            else:  # a tokenizer without a template for tools, an image for a model without eyes: the request may still be answered
                request.record.notes.append(f"no count from the engine: {errors.text_of(body)[:200]}")
        except ApiError as error:
            if error.status == 529:
                raise
            request.record.notes.append(f"no count from the engine: {error.message[:200]}")
        if tokens is None:
            tokens = made.turn.estimate
            request.record.notes.append("the count is an estimate")
        exchange.answer_json(200, {"input_tokens": tokens, **self._before_edits(question, tokens)})

    def _before_edits(self, question: Question, tokens: int) -> dict[str, Any]:
        edits = question.made.turn.applied_edits
        if not edits:
            return {}
        before = question.counted or tokens + sum(edit["cleared_input_tokens"] for edit in edits)
        return {"context_management": {"original_input_tokens": before}}


def _usage_in(usage: dict[str, Any]) -> Usage:
    cached, created = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    return Usage(usage.get("input_tokens", 0) + cached + created, usage.get("output_tokens", 0), cached, created)


def _without_budget(body: dict[str, Any], record: Record) -> dict[str, Any]:
    """A request without a thinking budget, in either protocol."""
    thinking = body.get("thinking")
    is_native = isinstance(thinking, dict) and "budget_tokens" in thinking
    if not is_native and "thinking_token_budget" not in body:
        return body
    record.notes.append("this engine takes no thinking budget; the model thinks as long as it likes")
    return {**body, "thinking": {"type": "adaptive"}} if is_native else translate.without_budget(body)


def _shorter(body: dict[str, Any], tokens: int) -> dict[str, Any]:
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and thinking.get("budget_tokens", 0) >= tokens:
        return {**body, "max_tokens": tokens, "thinking": {"type": "adaptive"}}
    return translate.with_max_tokens(body, tokens)
