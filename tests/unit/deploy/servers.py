"""Small real HTTP servers for tests: a scripted one, and on top of it a Hub and a registry that keep to their protocols."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"


@dataclasses.dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes = b""


@dataclasses.dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}})


Answer = Callable[[Request], Reply | None]


class Server:
    """Answers with what `answer` gives; None closes the connection without a word. Keeps all requests.

    Replies in `first` are given before `answer` is asked.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.first: list[Reply | None] = []
        self.requests: list[Request] = []
        self.address = ""

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def reply(self, request: Request) -> Reply | None:
        self.requests.append(request)
        return self.first.pop(0) if self.first else self.answer(request)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # Otherwise each body waits 40 ms for the acknowledgement of its headers.

        def handle_any(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k.lower(): v for k, v in self.headers.items()}
            reply = server.reply(Request(self.command, unquote(split.path), parse_qs(split.query), headers, body))
            if reply is None:
                self.close_connection = True
                return
            if "Date" in reply.headers:
                self.send_response_only(reply.status)
            else:
                self.send_response(reply.status)
            length = {} if "Transfer-Encoding" in reply.headers else {"Content-Length": str(len(reply.body))}
            for name, value in {**length, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.address = f"127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()


def manifest(content: str = "one") -> bytes:
    """An index whose digest depends on `content`."""
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [], "annotations": {"content": content}}).encode()


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Registry(Server):
    """A registry. `tags` maps `repository:tag` to a manifest; with `token` it wants one, as Docker Hub does."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.tags: dict[str, bytes] = {}
        self.token: str | None = None
        self.states_digest = True
        self.knows_head = True
        self.media_type = INDEX

    def _answer(self, request: Request) -> Reply:
        if request.path == "/token":
            return json_reply({"token": self.token})
        repository, _, reference = request.path.removeprefix("/v2/").rpartition("/manifests/")
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            challenge = f'Bearer realm="{self.url}/token",service="test registry",scope="repository:{repository}:pull"'
            return Reply(401, headers={"WWW-Authenticate": challenge})
        if request.method == "HEAD" and not self.knows_head:
            return Reply(405)
        body = self._body(repository, reference)
        if body is None:
            return json_reply({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, 404)
        stated = {"Docker-Content-Digest": digest_of(body)} if self.states_digest else {}
        return Reply(200, body, {"Content-Type": self.media_type, **stated})

    def _body(self, repository: str, reference: str) -> bytes | None:
        if reference.startswith("sha256:"):
            return next((b for name, b in self.tags.items() if name.rpartition(":")[0] == repository and digest_of(b) == reference), None)
        return self.tags.get(f"{repository}:{reference}")


@dataclasses.dataclass
class Repo:
    sha: str
    files: dict[str, int] = dataclasses.field(default_factory=dict)
    contents: dict[str, bytes] = dataclasses.field(default_factory=dict)
    gated: str | bool = False
    name: str | None = None


class Hub(Server):
    """The parts of the Hub's API that a lock needs. `allowed` is the token that may download gated files."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.repos: dict[str, Repo] = {}
        self.allowed: str | None = None

    def _answer(self, request: Request) -> Reply:
        path = request.path
        if path.startswith("/api/models/"):
            rest = path.removeprefix("/api/models/").split("/")
            name, action = "/".join(rest[:2]), rest[2:]
            repo = self.repos.get(name)
            if repo is None:
                return json_reply({"error": "Repository not found"}, 401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            if action == ["auth-check"]:
                return self._gate(request)
            if action and action != ["revision", repo.sha]:
                return json_reply({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
            return json_reply(self._info(name, repo, with_sizes=request.query.get("blobs") == ["True"] or request.query.get("blobs") == ["true"]))
        owner, name, _, revision, file = path.strip("/").split("/", 4)
        repo = self.repos.get(f"{owner}/{name}")
        if repo is None or revision != repo.sha or file not in repo.contents:
            return json_reply({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        return Reply(200, repo.contents[file])

    def _gate(self, request: Request) -> Reply:
        if self.allowed and request.headers.get("authorization") == f"Bearer {self.allowed}":
            return json_reply({})
        return json_reply({"error": "gated"}, 403, X_Error_Code="GatedRepo", X_Error_Message="Access to model is restricted")

    def _info(self, name: str, repo: Repo, *, with_sizes: bool) -> dict[str, object]:
        siblings = [{"rfilename": file, **({"size": size} if with_sizes else {})} for file, size in repo.files.items()]
        return {"id": repo.name or name, "sha": repo.sha, "gated": repo.gated, "siblings": siblings}
