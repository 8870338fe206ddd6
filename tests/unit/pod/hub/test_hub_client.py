"""Questions to a Hub over real HTTP: every fault has its own answer, and nothing is trusted or waited for without bounds."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod import __version__
from pod.hub.client import LONGEST_RETRY_AFTER_S, Answer, HubError, _next, ask, retry_after, same_etag

import compiler
from tests.hub_server import READER, Hub, hub_server

FILE = "p/publication.json"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with hub_server() as server:
        server.create("me/pods")
        server.commit("me/pods", {FILE: b'{"n": 1}'})
        yield server


def url(hub: Hub, path: str = FILE) -> str:
    return f"{hub.url}/me/pods/resolve/main/{path}"


def failure(address: str, token: str | None = None, timeout_s: float = 5.0, **more: Any) -> HubError:
    with pytest.raises(HubError) as caught:
        ask(address, None, token, timeout_s, **more)
    return caught.value


@contextlib.contextmanager
def raw_server(answer: Any) -> Iterator[str]:
    """A server that handles each connection with `answer(socket)`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        listener.shutdown(socket.SHUT_RDWR)


def test_content_then_nothing_new_then_new_content(hub: Hub) -> None:
    first = ask(url(hub), None, None, 5.0)
    assert (first.status, first.body, first.commit) == (200, b'{"n": 1}', hub.store.repo("me/pods").head.oid)
    before = len(hub.seen)
    assert ask(url(hub), first.etag, None, 5.0) == Answer(304, first.etag, b"", None, first.commit)
    assert len(hub.seen) == before + 1, "the redirect says that nothing changed; it needs not be followed"
    hub.commit("me/pods", {FILE: b'{"n": 2}'})
    assert ask(url(hub), first.etag, None, 5.0).body == b'{"n": 2}'


def test_it_says_who_asks_and_keeps_the_token_at_home(hub: Hub) -> None:
    hub.commit("me/pods", {"payload/a.tar.bz2": b"large" * 100})
    assert ask(url(hub, "payload/a.tar.bz2"), None, f" {READER}\n", 5.0).body == b"large" * 100
    resolve, cdn = hub.asked("/resolve/")[-1], hub.asked("/cdn/")[-1]
    assert resolve.headers["user-agent"] == f"podwright-pod/{__version__}"
    assert resolve.headers["authorization"] == f"Bearer {READER}"
    assert "authorization" not in cdn.headers


def test_the_runtime_has_the_compilers_version() -> None:
    assert __version__ == compiler.__version__


@pytest.mark.parametrize(("path", "token", "status"), [
    ("nothing.json", None, 404), (FILE, "hf_wrong", 401),
])  # fmt: skip
def test_refusals_are_answers(hub: Hub, path: str, token: str | None, status: int) -> None:
    assert ask(url(hub, path), None, token, 5.0).status == status


def test_private_and_gated_repositories(hub: Hub) -> None:
    hub.create("me/private", private=True)
    hub.create("me/gated", gated=True)
    assert ask(f"{hub.url}/me/private/resolve/main/a", None, None, 5.0).status == 401
    assert ask(f"{hub.url}/me/gated/resolve/main/a", None, READER, 5.0).status == 403
    assert ask(f"{hub.url}/no/such/resolve/main/a", None, READER, 5.0).status == 404


@pytest.mark.parametrize(("status", "header", "seconds"), [(500, None, None), (429, "7", 7.0), (503, "Wed, 21 Oct 2065 07:28:00 GMT", LONGEST_RETRY_AFTER_S)])
def test_a_busy_hub(hub: Hub, status: int, header: str | None, seconds: float | None) -> None:
    hub.fail("status", status=status, retry_after=header)
    found = ask(url(hub), None, None, 5.0)
    assert (found.status, found.retry_after_s) == (status, seconds)


@pytest.mark.parametrize(("fault", "kind"), [({"kind": "down"}, "network"), ({"kind": "html"}, "not-a-hub"), ({"kind": "half", "on": "resolve-cache"}, "truncated")])
def test_faults_on_the_way(hub: Hub, fault: dict[str, Any], kind: str) -> None:
    hub.fail(**fault)
    assert failure(url(hub)).kind == kind
    hub.clear()
    assert ask(url(hub), None, None, 5.0).status == 200


def test_nobody_listens(hub: Hub) -> None:
    with hub_server() as gone:
        pass
    error = failure(f"{gone.url}/a")
    assert error.kind == "network" and "refused" in str(error)


@pytest.mark.parametrize("kind", ["slow", "silent"])
def test_a_hub_that_does_not_answer_in_time(hub: Hub, kind: Any) -> None:
    hub.fail(kind, seconds=3.0)
    begun = time.monotonic()
    assert failure(url(hub), timeout_s=0.3).kind == "timeout"
    assert time.monotonic() - begun < 2.0


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"])
def test_a_server_that_drips_is_cut_off(hub: Hub, head: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.05)

    begun = time.monotonic()
    with raw_server(drip) as address:
        assert failure(address, timeout_s=0.4).kind == "timeout"
    assert time.monotonic() - begun < 2.0


def test_bodies_have_a_limit_announced_or_not(hub: Hub) -> None:
    assert failure(url(hub), limit=4).kind == "too-large"

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with raw_server(endless) as address:
        assert failure(address, limit=100_000).kind == "too-large"


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"])
def test_answers_that_are_no_http(hub: Hub, answer: bytes) -> None:
    with raw_server(lambda connection: connection.sendall(answer)) as address:
        assert failure(address).kind in ("network", "truncated")


def test_redirects_end_and_never_leave_https(hub: Hub) -> None:
    def around(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with raw_server(around) as address:
        assert failure(address).kind == "redirect"
    with pytest.raises(HubError) as caught:
        _next("https://hub.example/a", "http://hub.example/a")
    assert caught.value.kind == "redirect"
    assert _next("https://hub.example/a/b", "/c") == "https://hub.example/c"


@pytest.mark.parametrize("address", ["", "huggingface.co/x", "file:///etc/passwd", "http://", "http://h:port/x", "http://h/a b", "http://h/é", "http://[::1/x"])
def test_addresses_that_are_none(address: str) -> None:
    error = failure(address)
    assert error.kind == "network" and "HF_ENDPOINT" in str(error)


def test_a_token_never_stands_in_a_message(hub: Hub) -> None:
    error = failure(url(hub), token="hf_se\ncret")
    assert error.kind == "network" and "hf_se" not in str(error) and "cret" not in str(error)


def test_the_environments_proxy_is_used(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def proxy(connection: socket.socket) -> None:
        asked.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" if asked[-1].startswith(b"GET") else b"HTTP/1.1 407 No\r\n\r\n")

    with raw_server(proxy) as address:
        place = address.removeprefix("http://").removesuffix("/x")
        monkeypatch.setenv("http_proxy", f"http://me:pass%20word@{place}")
        monkeypatch.setenv("https_proxy", place)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert ask("http://hub.example/a?b", None, None, 5.0).body == b"ok"
        assert failure("https://hub.example/a").kind == "network"
        assert ask(url(hub), None, None, 5.0).body == b'{"n": 1}'
    assert asked[0].startswith(b"GET http://hub.example/a?b HTTP/1.1")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:pass word") in asked[0]
    assert asked[1].startswith(b"CONNECT hub.example:443")


def test_etags() -> None:
    assert same_etag('W/"a"', '"a"') and not same_etag('"a"', '"b"') and not same_etag(None, None)


@pytest.mark.parametrize(("headers", "seconds"), [
    ({}, None), ({"retry-after": "12"}, 12.0), ({"retry-after": "99999999"}, LONGEST_RETRY_AFTER_S), ({"retry-after": "soon"}, None),
    ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 30.0),
    ({"retry-after": "Mon, 30 Nov 2026 10:00:00 GMT", "date": "Mon, 30 Nov 2026 10:00:30 GMT"}, 0.0),
    ({"ratelimit": '"api";r=0;t=55'}, 55.0),
])  # fmt: skip
def test_how_long_a_server_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_header_crashes_the_reading_of_pauses(after: str, date: str, limit: str) -> None:
    found = retry_after({"retry-after": after, "date": date, "ratelimit": limit})
    assert found is None or 0 <= found <= LONGEST_RETRY_AFTER_S


def test_https_is_checked_against_the_machines_certificates(tmp_path: Path, hub: Hub) -> None:
    import datetime
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    certificate = built.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    (tmp_path / "pair.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    with raw_server(lambda connection: context.wrap_socket(connection, server_side=True).recv(1)) as address:
        error = failure(address.replace("http:", "https:"))
    assert error.kind == "network" and "certificate is not trusted" in str(error)
