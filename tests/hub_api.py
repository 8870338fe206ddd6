"""What a Hub answers: one function a route, over the repositories of `tests.hub_repos`. No socket and no fault in here."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, quote

from tests.hub_repos import Blob, HubRefusal, Repo, Right, Store, paths_info, tree, wants_lfs

_REPO = r"(?P<name>[\w.-]+/[\w.-]+)"
_API = rf"/api/(?P<kind>models|datasets|spaces)/{_REPO}"
_PREFIXED = rf"/(?:(?P<kind>datasets|spaces)/)?{_REPO}"


@dataclasses.dataclass(frozen=True)
class Call:
    """One request. `base` is the server's own address; `back` makes it read files of so many commits ago."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    base: str
    back: int = 0

    @property
    def token(self) -> str | None:
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None

    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8", **headers})


def _kind(match: re.Match[str]) -> str:
    return (match["kind"] or "models").removesuffix("s")


def _repo(store: Store, call: Call, match: re.Match[str], right: Right = "read", *, files: bool = False) -> Repo:
    return store.reachable(match["name"], _kind(match), call.token, right, files=files)


def _whoami(store: Store, call: Call, _: re.Match[str]) -> Reply:
    if call.token not in store.tokens:
        raise HubRefusal(401, None, "Invalid credentials in Authorization header")
    return json_reply({"type": "user", "name": "me", "auth": {"accessToken": {"role": store.tokens[call.token]}}})


def _create(store: Store, call: Call, _: re.Match[str]) -> Reply:
    if store.tokens.get(call.token or "") != "write":
        raise HubRefusal(403 if call.token else 401, None, "You don't have the rights to create a model under this namespace")
    wanted = call.json()
    name, kind = f"{wanted.get('organization') or 'me'}/{wanted['name']}", wanted.get("type", "model")
    is_private = wanted.get("private") is True or wanted.get("visibility") == "private"
    made = {"url": f"{call.base}/{'' if kind == 'model' else kind + 's/'}{name}", "name": name}
    try:
        store.create(name, kind=kind, private=is_private)
    except HubRefusal as refusal:
        if refusal.status != 409:
            raise
        return json_reply({"error": refusal.message, **made}, 409)
    return json_reply(made)


def _info(store: Store, call: Call, match: re.Match[str]) -> Reply:
    repo = _repo(store, call, match)
    commit = repo.at(match["rev"] or "main")
    rows = [{"rfilename": path, **(_metadata(blob) if "blobs" in call.query else {})} for path, blob in commit.files.items()]
    return json_reply({"id": repo.name, "sha": commit.oid, "private": repo.private, "gated": "auto" if repo.gated else False, "disabled": False,
                  "siblings": rows, "tags": []})  # fmt: skip


def _metadata(blob: Blob) -> dict[str, Any]:
    """What `?blobs=true` adds to a file of a repository's description."""
    lfs = {"lfs": {"sha256": blob.sha256, "size": len(blob.content), "pointerSize": 134}} if blob.is_lfs else {}
    return {"size": len(blob.content), "blobId": blob.git_oid, **lfs}


def _tree(store: Store, call: Call, match: re.Match[str]) -> Reply:
    commit = _repo(store, call, match).at(match["rev"])
    return json_reply(tree(commit, match["path"] or "", call.query.get("recursive", ["false"])[0].lower() in ("true", "1")))


def _paths_info(store: Store, call: Call, match: re.Match[str]) -> Reply:
    paths = parse_qs(call.body.decode()).get("paths", [])
    return json_reply(paths_info(_repo(store, call, match).at(match["rev"]), paths))


def _commits(store: Store, call: Call, match: re.Match[str]) -> Reply:
    repo = _repo(store, call, match)
    upto = repo.commits[: repo.commits.index(repo.at(match["rev"])) + 1]
    return json_reply([{"id": c.oid, "title": c.title, "message": "", "authors": [{"user": "me"}],
                   "date": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(c.at))} for c in reversed(upto)])  # fmt: skip


def _auth_check(store: Store, call: Call, match: re.Match[str]) -> Reply:
    _repo(store, call, match, files=True)
    return json_reply({})


def _preupload(store: Store, call: Call, match: re.Match[str]) -> Reply:
    files = _repo(store, call, match, "write").at(match["rev"]).files
    return json_reply({"files": [
        {"path": f["path"], "uploadMode": "lfs" if wants_lfs(f["path"], f["size"]) else "regular", "shouldIgnore": False,
         "oid": files[f["path"]].etag if f["path"] in files else None} for f in call.json()["files"]]})  # fmt: skip


def _commit(store: Store, call: Call, match: re.Match[str]) -> Reply:
    repo = _repo(store, call, match, "write")
    if match["rev"] != "main":
        raise HubRefusal(404, "RevisionNotFound", f"Invalid rev id: {match['rev']}")
    lines = [json.loads(line) for line in call.body.splitlines() if line.strip()]
    header = next(line["value"] for line in lines if line["key"] == "header")
    changes: dict[str, Blob | None] = {}
    for line in lines:
        changes |= _changed(store, repo, line["key"], line["value"])
    commit = store.commit(repo, changes, header["summary"], header.get("parentCommit"))
    return json_reply({"success": True, "commitOid": commit.oid, "commitUrl": f"{call.base}/{repo.name}/commit/{commit.oid}", "hookOutput": ""})


def _changed(store: Store, repo: Repo, key: str, value: Mapping[str, Any]) -> dict[str, Blob | None]:
    if key == "file":
        return {value["path"]: Blob(base64.b64decode(value["content"]), False)}
    if key == "lfsFile":
        content = store.pending.get(value["oid"])
        if content is None:
            raise HubRefusal(400, None, f"LFS file {value['oid']} was never uploaded")
        return {value["path"]: Blob(content, True)}
    if key == "deletedFile":
        return {value["path"]: None}
    if key == "deletedFolder":
        return {path: None for path in repo.head.files if path.startswith(value["path"].rstrip("/") + "/")}
    return {}


def _lfs_batch(store: Store, call: Call, match: re.Match[str]) -> Reply:
    _repo(store, call, match, "write")
    objects = [{**o, **({} if o["oid"] in store.pending else {"actions": {"upload": {"href": f"{call.base}/lfs/{o['oid']}", "header": {}}}})}
               for o in call.json()["objects"]]  # fmt: skip
    return json_reply({"transfer": "basic", "objects": [{"oid": o["oid"], "size": o["size"], **({"actions": o["actions"]} if "actions" in o else {})}
                                                   for o in objects]})  # fmt: skip


def _lfs_put(store: Store, call: Call, match: re.Match[str]) -> Reply:
    if Blob(call.body, True).sha256 != match["oid"]:
        raise HubRefusal(400, None, "BadDigest")
    store.pending[match["oid"]] = call.body
    return Reply()


def _resolve(store: Store, call: Call, match: re.Match[str]) -> Reply:
    """A file's first answer: its names in headers, and where its bytes are."""
    repo = _repo(store, call, match, files=True)
    commit = repo.at(match["rev"])
    commit = repo.commits[max(0, repo.commits.index(commit) - call.back)]
    blob = commit.files.get(match["path"])
    named = {"X-Repo-Commit": commit.oid}
    if blob is None:
        return json_reply({"error": "Entry not found"}, 404, **{"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}, **named)
    named["ETag"] = f'"{blob.etag}"'
    if blob.is_lfs:
        store.pending[blob.sha256] = blob.content
        linked = {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.content))}
        return Reply(302, b"", {**named, **linked, "Location": f"{call.base.replace('127.0.0.1', 'localhost')}/cdn/{blob.sha256}"})
    place = f"/api/resolve-cache/{_kind(match)}s/{repo.name}/{commit.oid}/{quote(match['path'])}"
    return Reply(307, b"", {**named, "Location": place})


def _resolve_cache(store: Store, call: Call, match: re.Match[str]) -> Reply:
    commit = _repo(store, call, match, files=True).at(match["rev"])
    blob = commit.files[match["path"]]
    return _content(call, blob.content, {"ETag": f'"{blob.etag}"', "X-Repo-Commit": commit.oid})


def _cdn(store: Store, call: Call, match: re.Match[str]) -> Reply:
    if "authorization" in call.headers:  # A signed address: a token that reaches it has left the Hub.
        return Reply(400, b"<Error><Code>InvalidArgument</Code></Error>", {"Content-Type": "application/xml"})
    return _content(call, store.pending[match["oid"]], {"ETag": f'"{match["oid"]}"'})


def _content(call: Call, content: bytes, headers: dict[str, str]) -> Reply:
    if call.headers.get("if-none-match") == headers["ETag"]:
        return Reply(304, b"", headers)
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers.get("range", ""))
    if not wanted:
        return Reply(200, content, headers)
    start, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
    if start >= len(content):
        return Reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
    return Reply(206, content[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{len(content)}"})


Route = tuple[str, str, Callable[[Store, Call, re.Match[str]], Reply]]
ROUTES: tuple[Route, ...] = (
    ("GET", r"/api/whoami-v2", _whoami),
    ("POST", r"/api/repos/create", _create),
    ("GET HEAD", rf"/api/resolve-cache/(?P<kind>models|datasets|spaces)/{_REPO}/(?P<rev>[^/]+)/(?P<path>.+)", _resolve_cache),
    ("GET", rf"{_API}(?:/revision/(?P<rev>[^/]+))?", _info),
    ("GET", rf"{_API}/tree/(?P<rev>[^/]+)(?P<path>/.*)?", _tree),
    ("POST", rf"{_API}/paths-info/(?P<rev>[^/]+)", _paths_info),
    ("GET", rf"{_API}/commits/(?P<rev>[^/]+)", _commits),
    ("GET", rf"{_API}/auth-check", _auth_check),
    ("POST", rf"{_API}/preupload/(?P<rev>[^/]+)", _preupload),
    ("POST", rf"{_API}/commit/(?P<rev>[^/]+)", _commit),
    ("POST", rf"{_PREFIXED}\.git/info/lfs/objects/batch", _lfs_batch),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", _lfs_put),
    ("GET HEAD", r"/cdn/(?P<oid>[0-9a-f]{64})", _cdn),
    ("GET HEAD", rf"{_PREFIXED}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", _resolve),
)


def answered(store: Store, call: Call, more: Sequence[Route] = ()) -> Reply:
    """The answer to one call, by routes of a test's own before the Hub's; a refusal in the Hub's own form."""
    try:
        for methods, pattern, answer in (*more, *ROUTES):
            match = re.fullmatch(pattern, call.path)
            if match and call.method in methods.split():
                return answer(store, call, match)
        raise HubRefusal(404, None, "Sorry, we can't find the page you are looking for.")
    except HubRefusal as refusal:
        coded = {"X-Error-Code": refusal.code} if refusal.code else {}
        return json_reply({"error": refusal.message}, refusal.status, **coded, **{"X-Error-Message": refusal.message})
