"""One question to a Hub: is this file still what I have? Standard library only, for a thread of the supervisor.

`ask` ends after `timeout_s` whatever the server does, never holds more than `limit` bytes, follows redirects without carrying the
token to another host or from https to http, and uses the proxy that the environment names.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import email.utils
import functools
import http.client
import re
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from pod import __version__

USER_AGENT = f"podwright-pod/{__version__}"
# A publication has 2 KB, a manifest under 100 KB, a payload under 1 MB: what is larger was not published by podwright.
MAX_BODY_BYTES = 16 << 20
# The Hub needs two for a large file and one for a small one.
MAX_REDIRECTS = 5
# What a server asks for beyond this is not believed: a pod that sleeps for a day follows nothing.
LONGEST_RETRY_AFTER_S = 3600.0

Kind = Literal["network", "timeout", "truncated", "too-large", "not-a-hub", "redirect", "hash", "status"]


class HubError(Exception):
    """A question without a usable answer. `kind` is for programs; the text says which host and never holds a token.

    network: no connection. timeout: no whole answer in time. truncated: less than was announced. not-a-hub: somebody else answered,
    with a page. hash: not the content that was named. status: a file that must be there was refused.
    """

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind: Kind = kind


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a Hub said: 304 and no body where nothing changed. `etag` is quoted as it came, `commit` the one that the file was read
    at, `retry_after_s` how long the server wants to be left alone."""

    status: int
    etag: str | None
    body: bytes
    retry_after_s: float | None
    commit: str | None


def ask(url: str, etag: str | None, token: str | None, timeout_s: float, *, limit: int = MAX_BODY_BYTES) -> Answer:
    """The answer to GET `url`, seconds and bytes bounded; `etag` is what a former answer had. Raises HubError.

    Statuses of 400 and above are answers, too; 200 with a web page, a cut body or an endless redirect are errors.
    """
    deadline, token = time.monotonic() + timeout_s, token.strip() if token else None
    origin, commit = _origin(_split(url)), None
    for _ in range(MAX_REDIRECTS + 1):
        target = _split(url)
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Connection": "close"}
        if token and _origin(target) == origin:
            headers["Authorization"] = f"Bearer {token}"
        if etag:
            headers["If-None-Match"] = etag
        status, found, body = _exchanged(target, headers, deadline, limit)
        commit = found.get("x-repo-commit") or commit
        own = found.get("x-linked-etag") or found.get("etag")
        if status in (301, 302, 303, 307, 308) and found.get("location"):
            if same_etag(own, etag):
                return Answer(304, own, b"", None, commit)
            url = _next(url, found["location"])
            continue
        _refuse_page(target, status, found, body)
        return Answer(status, own, body, retry_after(found) if status >= 400 else None, commit)
    raise HubError("redirect", f"{origin[1]} sends from one address to the next, {MAX_REDIRECTS} times")


def same_etag(one: str | None, other: str | None) -> bool:
    """Whether two entity tags name the same content; a weak one counts as the strong one."""
    return bool(one) and bool(other) and str(one).removeprefix("W/") == str(other).removeprefix("W/")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, from `Retry-After` (seconds or date) or `RateLimit`; None where it says nothing.

    A date is compared with the answer's own `Date`, because a pod's clock may be wrong. Keys in lower case.
    """
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text):
        return min(float(text), LONGEST_RETRY_AFTER_S)
    wanted = _date(text)
    if wanted is not None:
        now = _date(headers.get("date", ""))
        return min(max(0.0, wanted - (time.time() if now is None else now)), LONGEST_RETRY_AFTER_S)
    reset = re.search(r"(?:^|;)\s*t=(\d{1,9})\s*(?:;|$)", headers.get("ratelimit", ""))
    return min(float(reset[1]), LONGEST_RETRY_AFTER_S) if reset else None


def _date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _split(url: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.port
    except ValueError:
        raise HubError("network", "the Hub's address is no URL; look at HF_ENDPOINT") from None
    if split.scheme not in ("http", "https") or not split.hostname or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise HubError("network", "the Hub's address is no http or https URL; look at HF_ENDPOINT")
    return split


def _origin(split: SplitResult) -> tuple[str, str, int]:
    return split.scheme, split.hostname or "", split.port or (443 if split.scheme == "https" else 80)


def _next(url: str, location: str) -> str:
    target = urljoin(url, location)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise HubError("redirect", f"{urlsplit(url).hostname} sends from https to an address without it")
    return target


def _refuse_page(target: SplitResult, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """A proxy or a captive portal answers everything with a page."""
    is_page = headers.get("content-type", "").lower().startswith("text/html") or body[:64].lstrip().lower().startswith((b"<!doctype", b"<html"))
    if 200 <= status < 300 and is_page:
        raise HubError("not-a-hub", f"{target.hostname} answers with a web page; a proxy or a sign-in stands between")


def _exchanged(target: SplitResult, headers: dict[str, str], deadline: float, limit: int) -> tuple[int, dict[str, str], bytes]:
    """One request and its whole answer: status, headers by lower-case name, body."""
    host = target.hostname or ""
    connection, path, more = _connection(target, max(0.05, deadline - time.monotonic()))
    with _ended_at(deadline, connection) as has_ended:
        try:
            connection.connect()
            if has_ended():  # It was not open yet when its time was over, so nobody has closed it.
                raise TimeoutError
            connection.request("GET", path, headers=headers | more)
            response = connection.getresponse()
            body = _body(response, host, limit)
            if has_ended():
                raise TimeoutError
            return response.status, {name.lower(): value for name, value in response.getheaders()}, body
        except (OSError, http.client.HTTPException, ValueError) as error:
            if has_ended() or isinstance(error, TimeoutError):
                raise HubError("timeout", f"{host} gave no whole answer in time") from None
            if isinstance(error, http.client.IncompleteRead):
                raise HubError("truncated", f"{host} sent less than it announced") from None
            raise HubError("network", f"{host} cannot be reached: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """A cause without the request's text, which holds the token."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return (getattr(error, "strerror", None) or type(error).__name__) if isinstance(error, OSError) else type(error).__name__


@functools.cache
def _trust() -> ssl.SSLContext:
    """Made once: reading the machine's certificates takes longer than a whole question."""
    return ssl.create_default_context()


def _connection(target: SplitResult, timeout_s: float) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection, through the environment's proxy where it names one; what to ask for on it; and headers for the proxy."""
    scheme, host, port = _origin(target)
    path = f"{target.path or '/'}{'?' + target.query if target.query else ''}"
    named = urllib.request.getproxies().get(scheme)
    proxy = _split(named if "//" in named else f"http://{named}") if named and not urllib.request.proxy_bypass(host) else None
    near, near_port = (proxy.hostname or "", proxy.port or 80) if proxy else (host, port)
    login = _login(proxy) if proxy else {}
    if scheme == "http":
        address = f"http://{target.netloc.rpartition('@')[2]}{path}" if proxy else path
        return http.client.HTTPConnection(near, near_port, timeout=timeout_s), address, login
    connection = http.client.HTTPSConnection(near, near_port, timeout=timeout_s, context=_trust())
    if proxy:
        connection.set_tunnel(host, port, login)
    return connection, path, {}


def _login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@contextlib.contextmanager
def _ended_at(deadline: float, connection: http.client.HTTPConnection) -> Iterator[Callable[[], bool]]:
    """Close the connection at the deadline, however busy it is: a socket's own timeout begins anew with every byte."""
    ended = threading.Event()

    def end() -> None:
        ended.set()
        sock = connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket's own method: that one would let the reader go on with undeciphered bytes.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield ended.is_set
    finally:
        timer.cancel()
        connection.close()


def _body(response: http.client.HTTPResponse, host: str, limit: int) -> bytes:
    announced = response.length
    if announced is not None and announced > limit:
        raise HubError("too-large", f"{host} announces {announced:,} bytes, and at most {limit:,} are read")
    body = response.read(limit + 1)
    if len(body) > limit:
        raise HubError("too-large", f"{host} sends more than {limit:,} bytes")
    if announced is not None and len(body) < announced:
        raise http.client.IncompleteRead(body, announced - len(body))
    return body
