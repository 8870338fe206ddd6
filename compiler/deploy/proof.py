"""The proof that an endpoint serves: asked from outside, through the public address, with the key, as a client would.

"It answers" proves nothing: an engine that is wedged answers its health question. So a word that nobody has asked for before must come
back through the very protocol that clients use.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from compiler.deploy.answers import mapping, rows, text, texts, whole
from compiler.deploy.anthropic_stream import AnthropicStream
from compiler.deploy.http_api import USER_AGENT
from compiler.deploy.provider import CudaPin, Pod
from compiler.deploy.watch import Ready
from compiler.diagnostics import brief, printable
from compiler.secrets import masked

if TYPE_CHECKING:
    from compiler.plan import Plan

# A health question that takes longer is no answer; the provider's proxy itself needs a second or two when nothing listens yet.
ASK_S = 15.0
# Silence during a generation: the bridge sends something every 15 s, and a first request may compile for a minute or two.
SILENCE_S = 180.0
# Room for a reasoning model to think about an echo.
ANSWER_TOKENS = 2048
# A generated model answers noise: that it answers at all is all that can be known.
NOISE_TOKENS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """One thing that was proven, or not: what was expected and what came."""

    name: str
    ok: bool
    detail: str


class Endpoint:
    """An endpoint of one pod. `key` may be None where it asks for none. Nothing that leaves here holds the key."""

    def __init__(self, url: str, key: str | None, *, transport: httpx.BaseTransport | None = None) -> None:
        self.url, self._key = url, key
        self._http = httpx.Client(base_url=url, headers={"User-Agent": USER_AGENT}, timeout=httpx.Timeout(ASK_S), transport=transport)

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def ready(self, path: str) -> Ready:
        """Whether `path` says that requests are served; whatever stands in the way is a reason, never an exception."""
        try:
            response = self._http.get(path)
        except httpx.HTTPError as error:
            return Ready(False, "" if isinstance(error, httpx.TimeoutException) else f"no answer ({type(error).__name__})")
        if response.status_code == 200:
            return Ready(True)
        body = _json(response)
        reason = text(body.get("detail")) or text(body.get("reason")) or text(mapping(body.get("error")).get("message")) or ""
        return Ready(False, printable(brief(self._cleaned(reason), 300)))

    def prove(self, plan: Plan, pod: Pod, pin: CudaPin, say: Callable[[str], None] = lambda text: None) -> list[Proof]:
        """Every proof in order; the later ones are left out when an earlier one fails."""
        done: list[Proof] = []
        steps: tuple[Callable[[], Proof | None], ...] = (
            lambda: _cuda(pod, pin),
            lambda: self._refuses_strangers(plan),
            lambda: self._context(plan),
            lambda: self._generation(plan),
        )
        for step in steps:
            try:
                found = step()
            except httpx.HTTPError as error:
                found = Proof("answer", False, self._cleaned(f"the endpoint broke off: {type(error).__name__} {error}"))
            if found is not None:
                done.append(found)
                say(f"{'proven' if found.ok else 'NOT proven'}: {found.name}: {found.detail}")
                if not found.ok:
                    break
        return done

    def _refuses_strangers(self, plan: Plan) -> Proof | None:
        """An endpoint with a key must turn away those without."""
        if plan.bridge.api_key_env is None:
            return None
        status = self._http.get("/v1/models").status_code
        return Proof("key", status in (401, 403), f"a request without the key is answered {status}")

    def _context(self, plan: Plan) -> Proof:
        response = self._http.get("/v1/models", headers=self._headers())
        if response.status_code != 200:
            return Proof("context", False, f"/v1/models answers {response.status_code} to the key: {self._reason(response)}")
        windows = {whole(row.get("max_model_len")) for row in rows(_json(response).get("data"))} - {None}
        wanted = plan.engine.max_model_len
        shown = ", ".join(f"{w:,}" for w in sorted(w for w in windows if w)) or "nothing"
        return Proof("context", wanted in windows, f"{shown} tokens are served; the plan has {wanted:,}")

    def _generation(self, plan: Plan) -> Proof:
        """A word that comes back, by a stream that a strict client takes."""
        word = f"kestrel{secrets.randbelow(90000) + 10000}"
        asked = {
            "model": plan.model.served_names[0],
            "max_tokens": NOISE_TOKENS if plan.model.generated else ANSWER_TOKENS,
            "messages": [{"role": "user", "content": f"Reply with this word and nothing else: {word}"}],
        }
        if plan.bridge.mode == "off":
            return self._completion(plan, asked, word)
        stream = AnthropicStream()
        timeout = httpx.Timeout(SILENCE_S, connect=ASK_S)
        headers = {**self._headers(), "anthropic-version": "2023-06-01"}
        with self._http.stream("POST", "/v1/messages", json={**asked, "stream": True}, headers=headers, timeout=timeout) as response:
            if response.status_code != 200:
                response.read()
                return Proof("generation", False, f"/v1/messages answers {response.status_code}: {self._reason(response)}")
            for line in response.iter_lines():
                stream.feed(line)
        problem = stream.flush()
        if problem:
            return Proof("stream", False, self._cleaned(f"the Anthropic stream is not legal: {problem}"))
        return _answered(plan, word, stream.text, stream.output_tokens, "a legal Anthropic stream")

    def _completion(self, plan: Plan, asked: Mapping[str, Any], word: str) -> Proof:
        response = self._http.post(
            "/v1/chat/completions", json=asked, headers=self._headers(), timeout=httpx.Timeout(SILENCE_S, connect=ASK_S)
        )
        if response.status_code != 200:
            return Proof("generation", False, f"/v1/chat/completions answers {response.status_code}: {self._reason(response)}")
        body = _json(response)
        message = mapping(next((mapping(row.get("message")) for row in rows(body.get("choices"))), {}))
        said = message.get("content")
        tokens = whole(mapping(body.get("usage")).get("completion_tokens")) or 0
        return _answered(
            plan,
            word,
            said if isinstance(said, str) else " ".join(texts(said)),
            tokens,
            "a completion; without a bridge there is no Anthropic stream to prove",
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _reason(self, response: httpx.Response) -> str:
        body = _json(response)
        return self._cleaned(
            text(mapping(body.get("error")).get("message")) or text(body.get("detail")) or response.text[:200] or "no reason given"
        )

    def _cleaned(self, words: str) -> str:
        return printable(brief(masked(words.replace(self._key, "[hidden: the key]") if self._key else words), 400))


def _cuda(pod: Pod, pin: CudaPin) -> Proof | None:
    if not pin.exact and pin.floor is None:
        return None
    if pod.cuda is None:
        return Proof(
            "CUDA", True, f"the provider does not say which CUDA the host has (wanted: {pin}); the bootstrap has checked the driver"
        )
    return Proof("CUDA", pin.admits(pod.cuda), f"the host reports {pod.cuda}; wanted: {pin}")


def _answered(plan: Plan, word: str, said: str, tokens: int, how: str) -> Proof:
    if plan.model.generated:
        return Proof("generation", tokens > 0, f"{tokens} tokens by {how}; a generated model has no right answer")
    right = word in said.casefold()
    return Proof(
        "generation",
        right,
        f"the word came back in {tokens} tokens, by {how}"
        if right
        else f"asked for {word}, it said {printable(brief(said.strip(), 120))!r}",
    )


def _json(response: httpx.Response) -> Mapping[str, Any]:
    try:
        return mapping(response.json())
    except (ValueError, RecursionError):
        return {}
