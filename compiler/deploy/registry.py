"""Image registries (OCI distribution API, version 2): the digest behind a tag.

Anonymous unless it is given a login: a registry that wants a token for public images hands one out, and no stored credential is read or sent.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
import ipaddress
import re
import time
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit

import httpx

from compiler import __version__
from compiler.deploy.failures import BadAnswer, BadReference, Denied, NotFound, ServerBusy, Unreachable
from compiler.deploy.retry import ATTEMPTS, BUSY, CONNECT_TIMEOUT_S, LONGEST_PAUSE_S, READ_TIMEOUT_S, pause_before

DOCKER_HUB = "docker.io"
# Docker Hub's API does not answer under the name that its images carry.
_DOCKER_HUB_API = "registry-1.docker.io"
ACCEPTED = (
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
)  # fmt: skip
# The distribution specification asks registries to take manifests of 4 MiB; larger ones need not be portable.
MAX_MANIFEST_BYTES = 4 << 20

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_HOST = re.compile(
    r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)(?::[0-9]{1,5})?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_CHALLENGE = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')


@dataclasses.dataclass(frozen=True, slots=True)
class ImageReference:
    """An image by registry, repository, and tag or digest (or both). `str()` gives the full name."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def manifest_url(self) -> str:
        """Where the registry keeps its manifest. Plain http only on this machine itself."""
        host = _DOCKER_HUB_API if self.registry == DOCKER_HUB else self.registry
        scheme = "http" if is_loopback(host) else "https"
        return f"{scheme}://{host}/v2/{self.repository}/manifests/{self.digest or self.tag}"


def parse_reference(text: str) -> ImageReference:
    """`debian:13` as `docker.io/library/debian:13`, and so on, as Docker reads it. Raises BadReference.

    The part before the first slash is a registry when it has a dot or a colon, or is `localhost`.
    """
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _bad(text, "what follows @ is not sha256: and 64 hexadecimal digits")
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if is_host else (DOCKER_HUB, name)
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _bad(text, "what follows the colon is not a tag")
    if not _HOST.fullmatch(registry) or (registry.startswith("[") and not _is_ipv6(registry[1:].partition("]")[0])):
        raise _bad(text, "the part before the first slash is not the name of a registry")
    if not _PATH.fullmatch(path) or len(path) > 255:
        raise _bad(text, "the repository has characters that no registry takes")
    registry = DOCKER_HUB if registry.lower() in ("docker.io", "index.docker.io", _DOCKER_HUB_API) else registry
    if registry == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return ImageReference(registry, path, tag or (None if digest else "latest"), digest or None)


def is_loopback(host: str) -> bool:
    """Whether a `host[:port]` is this machine itself."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


class RegistryClient:
    """Questions to registries. `sleep` and `on_wait` are called around a pause that a registry asked for.

    Raises BadReference, Unreachable (a registry that was not reached is not tried again), ServerBusy, NotFound, Denied or
    BadAnswer. Use it in a `with` statement, which closes its connections. `login` is a registry's host with an account and its password.
    """

    def __init__(self, *, login: tuple[str, str, str] | None = None, sleep: Callable[[float], None] = time.sleep, on_wait: Callable[[str], None] = lambda text: None) -> None:
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.Client(timeout=timeout, follow_redirects=True, headers={"User-Agent": f"podwright/{__version__}"})
        self._sleep, self._on_wait = sleep, on_wait
        self._login = login
        # Values of the Authorization header, by registry and repository.
        self._tokens: dict[tuple[str, str], str] = {}
        self._down: dict[str, Unreachable] = {}

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def digest(self, image: str) -> str:
        """The digest (`sha256:...`) of an image's manifest or index as the registry has it now."""
        reference = parse_reference(image)
        response = self._manifest("HEAD", reference)
        stated = response.headers.get("Docker-Content-Digest", "") if response.is_success else ""
        if not _DIGEST.fullmatch(stated):  # Some registries state no digest, or know no HEAD: the body's hash is the digest.
            response = self._manifest("GET", reference)
            stated = f"sha256:{hashlib.sha256(response.content).hexdigest()}"
            self._check_body(response, reference)
        if reference.digest and stated != reference.digest:
            raise BadAnswer(
                f"{reference.registry} answers with {stated} for {reference}",
                "A digest names its content; another one is another image.",
                "Do not use this registry until its owner explains it.",
            )
        return stated

    def _manifest(self, method: str, reference: ImageReference) -> httpx.Response:
        headers = {"Accept": ", ".join(ACCEPTED), "Accept-Encoding": "identity"}
        key = (reference.registry, reference.repository)
        if key in self._tokens:
            headers["Authorization"] = self._tokens[key]
        response = self._asked(method, reference.manifest_url, headers, reference)
        if response.status_code == 401 and key not in self._tokens:
            self._tokens[key] = self._admission(response, reference)
            headers["Authorization"] = self._tokens[key]
            response = self._asked(method, reference.manifest_url, headers, reference)
        if method == "HEAD" and response.status_code == 405:
            return response
        self._check_status(response, reference)
        return response

    def _admission(self, response: httpx.Response, reference: ImageReference) -> str:
        """What the registry wants to see after its 401: the login itself, or a token from the place that it names."""
        own = self._basic(reference.registry)
        if own and response.headers.get("WWW-Authenticate", "").partition(" ")[0].lower() == "basic":
            return own
        return f"Bearer {self._token(response, reference, own)}"

    def _basic(self, host: str) -> str | None:
        if self._login is None or self._login[0] != host:
            return None
        return "Basic " + base64.b64encode(":".join(self._login[1:]).encode()).decode()

    def _token(self, response: httpx.Response, reference: ImageReference, own: str | None) -> str:
        """A token from the place that the registry's 401 names: an anonymous one without a login."""
        scheme, _, rest = response.headers.get("WWW-Authenticate", "").partition(" ")
        challenge = {name.lower(): quoted or bare for name, quoted, bare in _CHALLENGE.findall(rest)}
        realm = challenge.get("realm", "")
        try:
            target = urlsplit(realm)
        except ValueError:
            raise _closed(reference) from None
        may_be_plain = is_loopback(reference.registry) and is_loopback(target.netloc)
        if scheme.lower() != "bearer" or not target.hostname or target.scheme not in (("http", "https") if may_be_plain else ("https",)):
            raise _closed(reference)
        asked = {name: challenge[name] for name in ("service", "scope") if challenge.get(name)}
        asked.setdefault("scope", f"repository:{reference.repository}:pull")
        # The login goes to the registry's own host alone: a realm elsewhere is believed with an anonymous question.
        sent = {"Authorization": own} if own and _same_site(target.hostname, reference.registry) else {}
        answer = self._asked("GET", str(httpx.URL(realm).copy_merge_params(asked)), sent, reference)
        if answer.status_code in (400, 401, 403):
            raise _closed(reference)
        try:
            body = answer.json() if answer.is_success else {}
            token = body.get("token") or body.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise BadAnswer(
                f"{target.hostname} hands out no token for {reference}",
                "The registry wants one for every question.",
                "Try again later; if it stays, ask the registry's owner.",
            )
        return token

    def _asked(self, method: str, url: str, headers: dict[str, str], reference: ImageReference) -> httpx.Response:
        """The answer to one request, asked again while the server is busy."""
        host = urlsplit(url).netloc
        if host in self._down:
            raise self._down[host]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self._sent(method, url, headers)
            except (httpx.TransportError, httpx.TooManyRedirects, httpx.InvalidURL) as error:
                self._down[host] = Unreachable(
                    f"{host} cannot be reached: {error or type(error).__name__}",
                    f"The digest of {reference} is known only there.",
                    "Look at the network and the proxy's variables, then run it again.",
                )
                raise self._down[host] from error
            if response.status_code not in BUSY:
                return response
            pause = pause_before(attempt, response.headers, datetime.datetime.now(datetime.UTC))
            if attempt == ATTEMPTS or pause > LONGEST_PAUSE_S:
                raise ServerBusy(
                    f"{host} answers {response.status_code} for {reference}, attempt {attempt} of {ATTEMPTS}",
                    "It asks callers to come back later; Docker Hub counts anonymous callers by address.",
                    f"Run it again in {pause:.0f} s or later.",
                )
            self._on_wait(f"{host} answers {response.status_code}; asking again in {pause:.0f} s")
            self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _sent(self, method: str, url: str, headers: dict[str, str]) -> httpx.Response:
        """One request, its body read up to the limit; a redirect off https is not believed."""
        with self._http.stream(method, url, headers=headers) as response:
            if response.url.scheme != "https" and not is_loopback(response.url.netloc.decode()):
                raise BadAnswer(
                    f"{urlsplit(url).netloc} redirects to plain http",
                    "Anybody on the way could name another image.",
                    "Ask the registry's owner for an https address.",
                )
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_MANIFEST_BYTES:
                    raise BadAnswer(
                        f"{urlsplit(url).netloc} answers with more than {MAX_MANIFEST_BYTES:,} bytes",
                        "No manifest is that long.",
                        "Look whether something stands between.",
                    )
            kept = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in ("content-encoding", "transfer-encoding", "content-length")
            ]
            return httpx.Response(response.status_code, headers=kept, content=content, request=response.request)

    def _check_status(self, response: httpx.Response, reference: ImageReference) -> None:
        status = response.status_code
        if status == 404:
            raise NotFound(
                f"{reference.registry} has no image {reference}",
                "A pod or a build that starts from it cannot pull it.",
                "Look at repository and tag; an image of your own must be built and pushed first.",
            )
        if status in (401, 403):
            raise _closed(reference)
        media = response.headers.get("Content-Type", "").partition(";")[0].strip()
        if not response.is_success or (media and media not in ACCEPTED):
            shown = f"{status}, {media}" if media else str(status)
            raise BadAnswer(
                f"{reference.registry} answers {shown} for {reference}",
                "That is no manifest, so its digest would name nothing.",
                "Look whether something stands between, for instance a login page of the network.",
            )

    def _check_body(self, response: httpx.Response, reference: ImageReference) -> None:
        """A manifest is JSON with a schemaVersion; anything else would be hashed into a digest of nothing."""
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or body.get("schemaVersion") != 2:
            raise BadAnswer(
                f"{reference.registry} answers with no manifest for {reference}",
                "The hash of anything else is no image's digest.",
                "Look whether something stands between, for instance a login page of the network.",
            )


def _same_site(host: str, registry: str) -> bool:
    """Whether a realm is the registry's own host or another one of its domain; the Hub hands out the tokens of its own registry."""
    own = urlsplit(f"//{registry}").hostname or ""
    return host == own or host.split(".")[-2:] == own.split(".")[-2:] or (own == "registry.hf.space" and host == "huggingface.co")


def _bad(text: str, reason: str) -> BadReference:
    return BadReference(
        f"{text!r} is not the name of an image: {reason}",
        "No registry can be asked for it.",
        "Write registry/repository:tag in lower case, for instance ghcr.io/me/pod:1.",
    )


def _closed(reference: ImageReference) -> Denied:
    return Denied(
        f"{reference.registry} shows {reference} to nobody without an account",
        "It is private, or it does not exist: registries answer alike for both.",
        "Make it public, or write its digest into the lock by hand: after a push, `docker inspect` shows it under RepoDigests.",
    )
