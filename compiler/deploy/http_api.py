"""HTTP to a provider: one client that asks, reads with bounds, and turns every other answer into a `ProviderError`.

The key goes out in one header and comes back nowhere: every text that leaves here is cleaned of it and of what looks like a secret.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from compiler import __version__
from compiler.deploy.answers import mapping, text, texts
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.provider_errors import (
    Forbidden,
    Garbled,
    Intercepted,
    Invalid,
    KeyRefused,
    Missing,
    NoMoney,
    ProviderError,
    RateLimited,
    Refused,
    Retired,
    ServerFailed,
    Unanswered,
    WrongState,
)
from compiler.deploy.retry import ATTEMPTS, CONNECT_TIMEOUT_S, LONGEST_PAUSE_S, pause_before
from compiler.diagnostics import brief, printable
from compiler.secrets import masked

USER_AGENT = f"podwright/{__version__}"
# Creating a pod takes the provider seconds; other deployers were seen to wait two minutes for it.
READ_TIMEOUT_S = 120.0
# A network that is away is said so at once; a single lost packet is not.
UNANSWERED_ATTEMPTS = 2
# A thousand pods with full environments are about 5 MB; beyond this it is no answer to a question of ours.
MAX_BYTES = 64 << 20
# A clock that is further off than this makes ages and costs wrong, and certificates invalid.
MAX_SKEW_S = 300.0
_PROBLEMS: dict[int, type[ProviderError]] = {
    400: Refused,
    401: KeyRefused,
    402: NoMoney,
    403: Forbidden,
    404: Missing,
    409: WrongState,
    410: Retired,
    413: Invalid,
    422: Invalid,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer that was not turned into an error."""

    status: int
    headers: Mapping[str, str]
    body: Any


class ApiClient:
    """Asks one server. `sleep`s only for what the server asks for, and only where `again` allows to ask again."""

    def __init__(
        self,
        base: str,
        key: str,
        *,
        who: str,
        clock: Clock | None = None,
        on_wait: Callable[[str], None] = lambda text: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._key, self._who, self._clock, self._on_wait = key, who, clock or SystemClock(), on_wait
        headers = {"User-Agent": USER_AGENT, "Authorization": f"Bearer {key}", "Accept": "application/json"}
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.Client(base_url=base, headers=headers, timeout=timeout, transport=transport)
        self.skew_s = 0.0

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def time(self) -> float:
        """Now, by the clock that this client waits with."""
        return self._clock.time()

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        """The JSON of a resource, asked for again where the server is busy or failed."""
        return self.send("GET", path, params=params, again=True).body

    def send(self, method: str, path: str, *, body: object = None, params: Mapping[str, str | int] | None = None, again: bool) -> Answer:
        """One request; with `again` up to `ATTEMPTS` of them while the server is busy, fails or does not answer."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, path, body, params)
            except (RateLimited, ServerFailed, Unanswered, Garbled) as failure:
                pause = failure.retry_after_s if isinstance(failure, RateLimited) else pause_before(attempt, {}, self._now())
                attempts = UNANSWERED_ATTEMPTS if isinstance(failure, Unanswered) else ATTEMPTS
                if not again or attempt >= attempts or pause > LONGEST_PAUSE_S:
                    raise
                self._on_wait(f"{failure.what}; asking again in {pause:.0f} s")
                self._clock.sleep(pause)
        raise AssertionError("the last attempt raises")

    def lines(self, path: str, params: Mapping[str, str | int], *, idle_s: float | None) -> Iterator[str]:
        """The lines of a stream, until it ends or nothing comes for `idle_s` seconds (None: as long as it takes)."""
        timeout = httpx.Timeout(idle_s, connect=CONNECT_TIMEOUT_S)
        try:
            with self._http.stream("GET", path, params=dict(params), headers={"Accept": "text/event-stream"}, timeout=timeout) as response:
                if response.status_code != 200 or "text/html" in response.headers.get("content-type", ""):
                    raise self._problem(response, _bounded(response))
                yield from response.iter_lines()
        except httpx.ReadTimeout:
            return
        except httpx.RemoteProtocolError:  # The server hung up in the middle: what came has been given out.
            return
        except httpx.HTTPError as error:
            raise self._unanswered(error) from None

    def cleaned(self, words: str) -> str:
        """`words` on one line, without the key and without what looks like a secret."""
        return printable(brief(masked(words.replace(self._key, "[hidden: the key]") if self._key else words), 600))

    def _once(self, method: str, path: str, body: object, params: Mapping[str, str | int] | None) -> Answer:
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"} if content is not None else {}
        request = self._http.build_request(method, path, content=content, params=dict(params or {}), headers=headers)
        try:
            response = self._http.send(request, stream=True)
            try:
                raw = _bounded(response)
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise self._unanswered(error) from None
        self._measure_skew(response.headers.get("date", ""))
        if not 200 <= response.status_code < 300 or _is_page(response.headers, raw):
            raise self._problem(response, raw)
        if not raw.strip():
            return Answer(response.status_code, response.headers, None)
        try:
            return Answer(response.status_code, response.headers, json.loads(raw))
        except (ValueError, RecursionError):
            end = self.cleaned(raw[-60:].decode("utf-8", "replace"))
            raise Garbled(
                f"{self._who} answered {method} {path} with {len(raw):,} bytes that are not JSON; they end in {end!r}",
                status=response.status_code,
            ) from None

    def _problem(self, response: httpx.Response, raw: bytes) -> ProviderError:
        """The error of an answer that is not the one asked for."""
        status, asked = response.status_code, f"{response.request.method} {response.request.url.path}"
        said = raw.decode("utf-8", "replace")
        if b"error code: 1010" in raw:
            return Intercepted(
                f"Cloudflare refused the program that asks {self._who} (error code 1010)",
                fix="Something replaced podwright's User-Agent; take the proxy out that does it.",
                status=status,
            )
        if 300 <= status < 400 or status == 407 or (status < 500 and _is_page(response.headers, raw)):
            kind = (
                "a web page" if _is_page(response.headers, raw) else "a redirection" if status < 400 else "a demand for a proxy's password"
            )
            return Intercepted(f"{asked} was answered with {kind} (status {status}), not by {self._who}", status=status)
        detail = self.cleaned(_detail(raw, said) if not _is_page(response.headers, raw) else "a web page")
        what = f"{self._who} answers {status} to {asked}: {detail or 'no reason given'}"
        if status == 429:
            return RateLimited(what, retry_after_s=pause_before(1, response.headers, self._now()), detail=detail)
        if status >= 500:
            return ServerFailed(what, detail=detail, status=status)
        return _PROBLEMS.get(status, Invalid)(what, detail=detail, status=status)

    def _unanswered(self, error: httpx.HTTPError) -> ProviderError:
        """The error of a request without an answer, in words for whoever sits at the network's end."""
        said = self.cleaned(str(error))
        host = self._http.base_url.host
        if isinstance(error, httpx.ProxyError):
            return Intercepted(f"the proxy on the way to {self._who} refused: {said}")
        if isinstance(error, (httpx.RemoteProtocolError, httpx.DecodingError)):
            return Garbled(f"the answer of {self._who} broke off: {said}")
        if isinstance(error, httpx.TimeoutException):
            return Unanswered(f"{self._who} ({host}) did not answer in time")
        if "CERTIFICATE_VERIFY_FAILED" in said:
            return Intercepted(
                f"the certificate of {host} cannot be verified: {said}",
                fix="Check this machine's clock and date first; otherwise a proxy stands in between, and its certificate belongs into SSL_CERT_FILE.",
            )
        if any(
            words in said
            for words in (
                "Name or service not known",
                "name resolution",
                "nodename nor servname",
                "No address associated",
                "getaddrinfo failed",
            )
        ):
            return Unanswered(
                f"the name {host} cannot be resolved",
                fix="Check the network and its DNS server (`getent hosts " + host + "`), then try again.",
            )
        return Unanswered(f"{self._who} ({host}) cannot be reached: {said or type(error).__name__}")

    def _measure_skew(self, date: str) -> None:
        try:
            told = email.utils.parsedate_to_datetime(date)
        except ValueError:
            return
        told = told if told.tzinfo else told.replace(tzinfo=datetime.UTC)
        self.skew_s = self._clock.time() - told.timestamp()

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.time(), datetime.UTC)


def _bounded(response: httpx.Response) -> bytes:
    """The whole body; raises when it is larger than any answer should be."""
    pieces, size = [], 0
    for piece in response.iter_bytes():
        size += len(piece)
        if size > MAX_BYTES:
            raise httpx.RemoteProtocolError(f"more than {MAX_BYTES:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _is_page(headers: Mapping[str, str], raw: bytes) -> bool:
    return "text/html" in headers.get("content-type", "") or raw.lstrip()[:1] == b"<"


def _detail(raw: bytes, said: str) -> str:
    """The reason in an error's body: `detail` and `errors` (v2), `error` or `message` (v1, GraphQL), else the text itself."""
    try:
        body = mapping(json.loads(raw))
    except (ValueError, RecursionError):
        return said
    main = next((found for key in ("detail", "error", "message", "title") if (found := text(body.get(key)))), "")
    more = [line for line in texts(body.get("errors")) if line not in main]
    return " ".join([main, *more]).strip() or (said if not body else "")
