"""Digests from a registry, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.deploy.failures import BadAnswer, Denied, DeployError, NotFound, ServerBusy, Unreachable
from compiler.deploy.registry import ACCEPTED, RegistryClient
from compiler.deploy.retry import ATTEMPTS, LONGEST_PAUSE_S
from tests.unit.deploy.servers import Registry, Reply, Server, digest_of, json_reply, manifest, serving

NAME = "nvidia/cuda:13"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    server = Registry()
    server.tags[NAME] = manifest()
    with serving(server):
        yield server


class Asking:
    """A client whose pauses are only written down."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.said: list[str] = []
        self.client = RegistryClient(sleep=self.pauses.append, on_wait=self.said.append)

    def digest(self, server: Server, name: str = NAME) -> str:
        return self.client.digest(f"{server.address}/{name}")

    def failure(self, server: Server, kind: type[DeployError], name: str = NAME) -> DeployError:
        with pytest.raises(kind) as caught:
            self.digest(server, name)
        assert type(caught.value) is kind
        assert caught.value.why
        assert caught.value.fix
        return caught.value


@pytest.fixture
def asking() -> Iterator[Asking]:
    found = Asking()
    with found.client:
        yield found


def test_the_header_of_one_head_request_is_enough(registry: Registry, asking: Asking) -> None:
    assert asking.digest(registry) == digest_of(manifest())
    assert [r.method for r in registry.requests] == ["HEAD"]
    sent = registry.requests[0].headers
    assert sent["user-agent"].startswith("podwright/")
    assert [part.strip() for part in sent["accept"].split(",")] == list(ACCEPTED)


@pytest.mark.parametrize("knows_head", [True, False])
def test_without_a_header_the_body_is_hashed(registry: Registry, asking: Asking, knows_head: bool) -> None:
    registry.states_digest, registry.knows_head = False, knows_head
    assert asking.digest(registry) == digest_of(manifest())
    assert [r.method for r in registry.requests] == ["HEAD", "GET"]


def test_a_token_is_fetched_once_for_a_repository(registry: Registry, asking: Asking) -> None:
    registry.token = "anonymous"
    registry.tags["nvidia/cuda:12"] = manifest("two")
    assert asking.digest(registry) == digest_of(manifest())
    assert asking.digest(registry, "nvidia/cuda:12") == digest_of(manifest("two"))
    tokens = [r for r in registry.requests if r.path == "/token"]
    assert [r.query for r in tokens] == [{"service": ["test registry"], "scope": ["repository:nvidia/cuda:pull"]}]
    assert "authorization" not in tokens[0].headers


def test_a_token_that_opens_nothing_means_private(registry: Registry, asking: Asking) -> None:
    registry.answer = lambda r: json_reply({"token": "x"}) if r.path == "/token" else Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{registry.url}/token"'})
    failure = asking.failure(registry, Denied)
    assert "private, or it does not exist" in failure.why
    assert len(registry.requests) == 3


@pytest.mark.parametrize(
    "challenge", ["", 'Basic realm="x"', 'Bearer realm="http://example.com/token"', 'Bearer realm="ftp://example.com/token"', "Bearer", 'Bearer realm="/token"', 'Bearer realm="http://[::1/token"']
)
def test_no_token_is_asked_for_at_a_place_that_cannot_be_trusted(registry: Registry, asking: Asking, challenge: str) -> None:
    registry.answer = lambda r: Reply(401, headers={"WWW-Authenticate": challenge})
    asking.failure(registry, Denied)
    assert len(registry.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"token": 5}', b'{"token": "two words"}'])
def test_a_token_server_that_talks_nonsense(registry: Registry, asking: Asking, body: bytes) -> None:
    registry.answer = lambda r: Reply(200, body) if r.path == "/token" else Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{registry.url}/token"'})
    assert "hands out no token" in asking.failure(registry, BadAnswer).what


def test_no_such_image(registry: Registry, asking: Asking) -> None:
    failure = asking.failure(registry, NotFound, "nvidia/cuda:99")
    assert failure.what == f"{registry.address} has no image {registry.address}/nvidia/cuda:99"


def test_a_busy_registry_is_asked_again_when_it_says(registry: Registry, asking: Asking) -> None:
    registry.first = [Reply(429, headers={"Retry-After": "7"}), Reply(503), Reply(502)]
    assert asking.digest(registry) == digest_of(manifest())
    assert asking.pauses == [7.0, 2.0, 4.0]
    assert asking.said[0] == f"{registry.address} answers 429; asking again in 7 s"


def test_a_registry_that_stays_busy(registry: Registry, asking: Asking) -> None:
    registry.answer = lambda r: Reply(500)
    failure = asking.failure(registry, ServerBusy)
    assert len(registry.requests) == ATTEMPTS
    assert len(asking.pauses) == ATTEMPTS - 1
    assert f"attempt {ATTEMPTS} of {ATTEMPTS}" in failure.what


def test_a_wait_of_an_hour_is_the_users_decision(registry: Registry, asking: Asking) -> None:
    registry.answer = lambda r: Reply(429, headers={"Retry-After": "3600"})
    failure = asking.failure(registry, ServerBusy)
    assert failure.fix == "Run it again in 3600 s or later."
    assert asking.pauses == []
    assert LONGEST_PAUSE_S < 3600


def test_a_registry_that_is_gone_is_asked_once(registry: Registry, asking: Asking) -> None:
    registry.answer = lambda r: None
    asking.failure(registry, Unreachable)
    asking.failure(registry, Unreachable, "other/image:1")
    assert len(registry.requests) == 1


def test_nobody_listens(asking: Asking) -> None:
    server = Server(lambda r: None)
    with serving(server):
        pass
    assert "cannot be reached" in asking.failure(server, Unreachable).what


def test_a_login_page_of_the_network_is_no_manifest(registry: Registry, asking: Asking) -> None:
    registry.answer = lambda r: Reply(200, b"<html>pay here</html>", {"Content-Type": "text/html"})
    assert "login page" in asking.failure(registry, BadAnswer).fix
    registry.answer = lambda r: Reply(200, b"<html>pay here</html>")
    assert "no manifest" in asking.failure(registry, BadAnswer).what


def test_an_endless_body_is_cut_off(registry: Registry, asking: Asking) -> None:
    registry.states_digest = False
    registry.tags[NAME] = b"x" * (5 << 20)
    assert "more than 4,194,304 bytes" in asking.failure(registry, BadAnswer).what


def test_a_redirect_off_https_is_not_believed(registry: Registry, asking: Asking) -> None:
    other = Registry()
    other.tags[NAME] = manifest()
    with serving(other):
        registry.answer = lambda r: Reply(307, headers={"Location": f"http://{other.address}{r.path}"})
        assert asking.digest(registry) == digest_of(manifest())  # Loopback to loopback is this machine.
    registry.answer = lambda r: Reply(307, headers={"Location": "ftp://example.com/"})
    asking.failure(registry, Unreachable)


def test_another_manifest_than_the_digest_asked_for(registry: Registry, asking: Asking) -> None:
    wanted = f"{NAME}@{digest_of(manifest())}"
    assert asking.digest(registry, wanted) == digest_of(manifest())
    registry.answer = lambda r: Reply(200, manifest("two"), {"Content-Type": registry.media_type, "Docker-Content-Digest": digest_of(manifest("two"))})
    assert "answers with sha256" in asking.failure(registry, BadAnswer, wanted).what


@pytest.mark.parametrize("stated", ["sha256:short", "md5:1", "sha512:" + "a" * 128])
def test_a_malformed_digest_header_is_not_taken(registry: Registry, asking: Asking, stated: str) -> None:
    registry.answer = lambda r: Reply(200, manifest(), {"Content-Type": registry.media_type, "Docker-Content-Digest": stated})
    assert asking.digest(registry) == digest_of(manifest())


@pytest.mark.parametrize(("status", "kind"), [(400, BadAnswer), (403, Denied), (418, BadAnswer)])
def test_other_refusals(registry: Registry, asking: Asking, status: int, kind: type[DeployError]) -> None:
    registry.answer = lambda r: Reply(status)
    asking.failure(registry, kind)
