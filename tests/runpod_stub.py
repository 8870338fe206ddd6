"""A RunPod that plays: an account with pods that are placed, pull, boot and serve by a clock, and that fail in every documented way.

It speaks REST v2 as the contract has it (unknown fields are a 422, a create without a count matches nothing, capacity is a 400 with
RunPod's own sentence), and enough of REST v1 and GraphQL. A second half plays what is behind the public proxy: the endpoint of a pod.
The stub is not a model of what podwright believes: it refuses what RunPod is documented to refuse, whoever asks.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

from tests.unit.deploy.servers import Reply, Request, Server, json_reply

KEY = "rpa_STUBKEYSTUBKEYSTUBKEY1234567890"
ENDPOINT_KEY = "endpoint-key-of-the-tests-0001"
CAPACITY = "There are no longer any instances available with the requested specifications. Please refresh and try again."
HOST_FULL = "There are not enough free GPUs on the host machine to start this pod."
POD_FIELDS = {
    "name", "cloud", "image", "cmd", "entrypoint", "args", "disk", "ports", "env", "registry", "gpu", "cpu", "dataCenterIds", "startSsh", "startJupyter",
    "templateId", "mounts", "globalNetworking",
}  # fmt: skip
TEMPLATE_FIELDS = {
    "name", "image", "cmd", "entrypoint", "args", "disk", "ports", "env", "registry", "category", "public", "serverless", "startSsh", "startJupyter", "mounts",
    "allowedCudaVersions",
}  # fmt: skip
GPU_FIELDS = {"id", "count", "allowedCudaVersions", "minCudaVersion", "minRamPerGpu", "minVcpuCountPerGpu"}


class FakeClock:
    """A clock that stands still until somebody sleeps."""

    def __init__(self, now: float = 1_796_000_000.0) -> None:
        self.now, self.slept = now, 0.0
        self.on_sleep: Callable[[float], None] = lambda now: None

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        self.on_sleep(self.now)


@dataclasses.dataclass
class Course:
    """How a pod lives, in seconds after its creation. `end` is what happens instead of serving, at the time when it would serve."""

    placed: float = 10.0
    pulled: float = 90.0
    serves: float = 240.0
    cuda: str | None = "13.0"
    gpus: int | None = None
    end: str = "serves"
    system: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    container: list[tuple[float, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class StubPod:
    id: str
    body: dict[str, Any]
    created: float
    course: Course
    price: float
    center: str
    stopped: bool = False
    terminated: bool = False
    listed_from: float = 0.0


@dataclasses.dataclass
class Gpu:
    """A card of the catalogue: price of one, and the free CUDA versions of each data center."""

    id: str
    price: float
    centers: dict[str, dict[str, bool]]
    memory: int = 48
    most: int = 8


class RunpodStub(Server):
    """One account. `faults` are taken first, in order: (method, pattern of the path, what to do instead)."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(self._answered)
        self.clock = clock
        self.pods: dict[str, StubPod] = {}
        self.templates: dict[str, dict[str, Any]] = {}
        self.foreign_templates: set[str] = set()
        self.secrets: set[str] | None = {"podwright-api-key", "hf-token"}
        self.secret_values: dict[str, str] = {}
        self.registries: dict[str, dict[str, str]] = {}
        self.gpus = [Gpu("NVIDIA RTX 6000 Ada Generation", 0.77, {"EU-SE-1": {"13.0": True, "12.8": True}}), Gpu("NVIDIA L40S", 0.99, {"EU-RO-1": {"13.0": True}})]
        self.courses: list[Course] = []
        self.faults: list[tuple[str, str, Callable[[Request], Reply | None]]] = []
        self.balance = 100.0
        self.page = 1000
        self.knows_arrays = True
        self.extra: dict[str, Any] = {}
        self.times: list[tuple[float, str, str]] = []
        self._ids, self._template_ids = itertools.count(1), itertools.count(1)
        self.skew = 0.0

    # --- what tests ask

    def living(self) -> list[StubPod]:
        """Pods that are not terminated."""
        return [p for p in self.pods.values() if not p.terminated]

    def fault(self, method: str, path: str, do: Callable[[Request], Reply | None], times: int = 1) -> None:
        """The next `times` requests of that kind get `do` instead."""
        self.faults += [(method, path, do)] * times

    def creates(self) -> list[dict[str, Any]]:
        """Bodies of the creates that arrived."""
        return [json.loads(r.body) for r in self.requests if r.method == "POST" and r.path == "/v2/pods"]

    def make(self, body: dict[str, Any]) -> StubPod:
        """A pod, whatever the answer is going to be."""
        gpu = self.gpu(body["gpu"]["id"])
        center = (body.get("dataCenterIds") or [next(iter(gpu.centers), "US-XX-1")])[0]
        course = self.courses.pop(0) if self.courses else Course()
        pod = StubPod(f"pod{next(self._ids):04}", body, self.clock.time(), course, gpu.price * body["gpu"]["count"], center)
        self.pods[pod.id] = pod
        return pod

    # --- HTTP

    def _answered(self, request: Request) -> Reply | None:
        reply = self._judged(request)
        if reply is None:
            return None
        date = email.utils.formatdate(self.clock.time() + self.skew, usegmt=True)
        return dataclasses.replace(reply, headers={"Date": date, **reply.headers})

    def _judged(self, request: Request) -> Reply | None:
        self.times.append((self.clock.time(), request.method, request.path))
        for index, (method, path, do) in enumerate(self.faults):
            if request.method == method and re.search(path, request.path):
                del self.faults[index]
                return do(request)
        if request.path.startswith("/proxy/"):
            return self._proxied(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return problem(401, "invalid bearer token")
        if request.headers.get("user-agent", "").startswith("Python-urllib"):
            return Reply(403, b"error code: 1010")
        return self.routed(request)

    def routed(self, request: Request) -> Reply:
        """The route of a request that is let in."""
        return self._v2(request)

    def _v2(self, request: Request) -> Reply:
        parts, body = request.path.strip("/").split("/"), json.loads(request.body) if request.body else {}
        match (request.method, *parts[1:]):
            case ("GET", "pods"):
                return self._page([self.described(p) for p in self.living() if p.listed_from <= self.clock.time()], "pods", request)
            case ("POST", "pods"):
                return self.created(body)
            case ("GET", "pods", pod_id):
                return json_reply(self.described(self.pods[pod_id])) if self._lives(pod_id) else problem(404, "pod not found")
            case ("DELETE", "pods", pod_id):
                if not self._lives(pod_id):
                    return problem(404, "pod not found")
                self.pods[pod_id].terminated = True
                return Reply(204)
            case ("POST", "pods", pod_id, "action"):
                return self._acted(pod_id, body.get("action"))
            case ("GET", "pods", pod_id, "logs"):
                return self._logged(pod_id, request)
            case ("GET", "templates"):
                return self._page(list(self.templates.values()), "templates", request)
            case ("POST", "templates"):
                return self._template(body, None)
            case ("PATCH", "templates", template_id):
                return self._template(body, template_id)
            case ("GET", "account", "secrets"):
                return problem(404, "not found") if self.secrets is None else json_reply({"secrets": [{"id": n, "name": n, "createdAt": "2026-01-01T00:00:00Z"} for n in sorted(self.secrets)]})
            case ("POST", "account", "secrets"):
                return self._secret_made(body)
            case ("PATCH", "account", "secrets", secret_id):
                if self.secrets is None or secret_id not in self.secrets:
                    return problem(404, "secret not found")
                self.secret_values[secret_id] = body["value"]
                return json_reply({"id": secret_id, "name": secret_id, "createdAt": "2026-01-01T00:00:00Z", "valueLastUpdatedAt": "2026-11-30T00:00:00Z"})
            case ("GET", "registries"):
                return self._page([{"id": found, "name": kept["name"]} for found, kept in self.registries.items()], "registries", request)
            case ("POST", "registries"):
                return json_reply({"id": self.registry(body), "name": body["name"]}, 201)
            case ("GET", "catalog", "gpus"):
                return self._catalogue(request)
            case ("GET", "billing", "pods"):
                return self._billing(request)
        return problem(404, "no such route")

    def _secret_made(self, body: dict[str, Any]) -> Reply:
        """A secret as RunPod judges it; its value never comes back, but for a refusal that quotes what it refuses."""
        if not re.fullmatch(r"(?i)(?!runpod)[a-z_][a-z0-9_.\-/]*", body.get("name", "")) or not body.get("value"):
            return problem(422, f"Request validation failed: {body}")
        if self.secrets is None or body["name"] in self.secrets:
            return problem(409, "a secret of that name exists")
        self.secrets.add(body["name"])
        self.secret_values[body["name"]] = body["value"]
        return json_reply({"id": body["name"], "name": body["name"], "createdAt": "2026-11-30T00:00:00Z", "valueLastUpdatedAt": None}, 201)

    def registry(self, body: dict[str, Any]) -> str:
        """Keep a registry's credential, whose parts never come back; its id."""
        assert body.keys() == {"name", "username", "password"} and all(body.values())
        found = f"reg{len(self.registries) + 1}"
        self.registries[found] = body
        return found

    def created(self, body: dict[str, Any]) -> Reply:
        """A create as RunPod judges it."""
        gpu = body.get("gpu") or {}
        arrays = set() if self.knows_arrays else {"cmd", "entrypoint"}
        wrong = [f"$: additional properties '{f}' not allowed" for f in sorted((body.keys() - POD_FIELDS) | (body.keys() & arrays))]
        wrong += [f"$.gpu: additional properties '{f}' not allowed" for f in sorted(gpu.keys() - GPU_FIELDS)]
        wrong += [f"$: missing property '{f}'" for f in ("name", "image") if not body.get(f)]
        if wrong:
            return problem(422, "Request validation failed.", errors=wrong)
        if gpu.get("allowedCudaVersions") and gpu.get("minCudaVersion"):
            return problem(400, "allowedCudaVersions and minCudaVersion are mutually exclusive")
        if "count" not in gpu or not self.is_free(gpu, body.get("dataCenterIds") or []):
            return problem(400, CAPACITY)
        if self.balance < self.gpu(gpu["id"]).price * gpu["count"]:
            return problem(402, "Your balance is too low to create this pod.")
        return json_reply(self.described(self.make(body)), 201)

    def is_free(self, gpu: dict[str, Any], centers: list[str]) -> bool:
        exact, floor = gpu.get("allowedCudaVersions"), gpu.get("minCudaVersion")
        for center, versions in self.gpu(gpu["id"]).centers.items():
            if centers and center not in centers:
                continue
            for version, free in versions.items():
                if free and (not exact or version in exact) and (not floor or _numbers(version) >= _numbers(floor)):
                    return True
        return False

    def gpu(self, gpu_id: str) -> Gpu:
        return next((g for g in self.gpus if g.id == gpu_id), Gpu(gpu_id, 1.0, {}))

    def _lives(self, pod_id: str) -> bool:
        return pod_id in self.pods and not self.pods[pod_id].terminated

    def _page(self, rows: list[dict[str, Any]], key: str, request: Request) -> Reply:
        start = int((request.query.get("cursor") or ["0"])[0])
        more = start + self.page < len(rows)
        return json_reply({key: rows[start : start + self.page], "pagination": {"nextCursor": str(start + self.page) if more else None, "hasNextPage": more}, **self.extra})

    # --- a pod's life

    def status(self, pod: StubPod) -> str:
        age, course = self.clock.time() - pod.created, pod.course
        if pod.terminated:
            return "TERMINATED"
        if pod.stopped:
            return "EXITED"
        if age < course.placed or course.end == "stuck":
            return "PROVISIONING"
        if age < course.pulled or course.end.startswith("pull"):
            return "STARTING"
        if age >= course.serves and course.end in ("exits", "errors"):
            return "EXITED" if course.end == "exits" else "ERROR"
        return "RUNNING"

    def serves(self, pod: StubPod) -> bool:
        return self.status(pod) == "RUNNING" and pod.course.end == "serves" and self.clock.time() - pod.created >= pod.course.serves

    def described(self, pod: StubPod) -> dict[str, Any]:
        """A pod as v2 answers it, with a field that nobody knows and nulls where the contract has them."""
        body, status = pod.body, self.status(pod)
        if pod.course.end == "vanishes" and self.clock.time() - pod.created >= pod.course.serves:
            pod.terminated = True
        return {
            "id": pod.id, "name": body["name"], "status": status, "actions": [], "image": body.get("image"), "args": body.get("args", ""), "cmd": body.get("cmd", []),
            "entrypoint": body.get("entrypoint", []), "disk": body.get("disk"), "mounts": {}, "ports": body.get("ports", []), "env": body.get("env", {}), "registry": body.get("registry"),
            "gpu": {"id": body["gpu"]["id"], "count": body["gpu"]["count"] if pod.course.gpus is None or status != "RUNNING" else pod.course.gpus, "vcpuCount": 16, "memory": 62},
            "cloud": body.get("cloud", "SECURE"), "dataCenterId": pod.center, "cudaVersion": pod.course.cuda, "ssh": {"proxy": None, "direct": None}, "template": None,
            "cost": 0.0 if status in ("EXITED", "TERMINATED") else pod.price, "locked": False, "globalNetworking": {"enabled": False}, "runtime": {} if status == "RUNNING" else None,
            "createdAt": stamp(pod.created), "startedAt": stamp(pod.created + pod.course.pulled) if status == "RUNNING" else None, "unheardOf": {"nested": [None]}, **self.extra,
        }  # fmt: skip

    def _acted(self, pod_id: str, action: Any) -> Reply:
        if not self._lives(pod_id):
            return problem(404, "pod not found")
        pod, status = self.pods[pod_id], self.status(self.pods[pod_id])
        allowed = {"RUNNING": ("stop", "restart", "terminate"), "EXITED": ("start", "terminate"), "ERROR": ("start", "terminate"), "PROVISIONING": ("stop", "terminate"), "STARTING": ("stop", "terminate")}
        if action not in allowed[status]:
            return problem(409, f"cannot {action} a pod that is {status}")
        if action == "start":
            if not self.is_free(pod.body["gpu"], [pod.center]):
                return problem(400, HOST_FULL)
            pod.stopped, pod.created = False, self.clock.time()
        elif action == "stop":
            pod.stopped = True
        elif action == "terminate":
            pod.terminated = True
            return Reply(204)
        return json_reply(self.described(pod))

    def _logged(self, pod_id: str, request: Request) -> Reply:
        if not self._lives(pod_id):
            return problem(404, "pod not found")
        pod, wanted = self.pods[pod_id], (request.query.get("source") or ["system", "container"])
        age = self.clock.time() - pod.created
        lines = [(pod.course.placed + 1, "system", "pulling image layer 1 of 9"), (pod.course.pulled, "system", "start container")]
        lines += [(pod.course.pulled + 1, "container", "[bootstrap] 12:00:00 podwright bootstrap, profile x"), ((pod.course.pulled + pod.course.serves) / 2, "container", "Loading weights took 12.3 s")]
        if pod.course.end.startswith("pull"):
            lines = lines[:1]
        lines += [(at, "system", text) for at, text in pod.course.system] + [(at, "container", text) for at, text in pod.course.container]
        told = sorted(line for line in lines if line[0] <= age and line[1] in wanted)[-int((request.query.get("tail") or ["100"])[0]):]
        events = "".join(f"id: {stamp(pod.created + at)}\ndata: {json.dumps({'ts': stamp(pod.created + at), 'source': source, 'line': text})}\n\n" for at, source, text in told)
        return Reply(200, events.encode(), {"Content-Type": "text/event-stream"})

    # --- templates, catalogue, money

    def _template(self, body: dict[str, Any], template_id: str | None) -> Reply:
        wrong = [f"$: additional properties '{f}' not allowed" for f in sorted(body.keys() - TEMPLATE_FIELDS)]
        if wrong:
            return problem(422, "Request validation failed.", errors=wrong)
        if template_id is None:
            if body["name"] in self.foreign_templates | {t["name"] for t in self.templates.values()}:
                return problem(400, "Template name must be unique.")
            template_id = f"tpl{next(self._template_ids)}"
            self.templates[template_id] = {"id": template_id, "args": "", "mounts": {}, "registry": None, "cmd": [], "entrypoint": [], "allowedCudaVersions": []}
        self.templates[template_id] |= body
        return json_reply(self.templates[template_id], 201)

    def _catalogue(self, request: Request) -> Reply:
        if "include" in request.query and "product" not in request.query:
            return problem(400, "product is required with include")
        if "cudaVersions" in request.query and "minCudaVersion" in request.query:
            return problem(400, "cudaVersions and minCudaVersion are mutually exclusive")
        exact = (request.query.get("cudaVersions") or [""])[0].split(",") if "cudaVersions" in request.query else None
        floor = (request.query.get("minCudaVersion") or [None])[0]

        def fits(version: str) -> bool:
            return (exact is None or version in exact) and (floor is None or _numbers(version) >= _numbers(floor))

        rows = []
        for gpu in self.gpus:
            free = {c: [v for v, is_free in versions.items() if is_free and fits(v)] for c, versions in gpu.centers.items()}
            versions = {v: any(v in found for found in free.values()) for vs in gpu.centers.values() for v in vs if fits(v)}
            rows.append({
                "id": gpu.id, "name": gpu.id.removeprefix("NVIDIA "), "pool": None, "manufacturer": "NVIDIA", "memory": gpu.memory, "secure": True, "community": True,
                "price": {"secure": gpu.price, "community": gpu.price - 0.2}, "maxCount": {"secure": gpu.most, "community": 4}, "availability": "LOW" if any(free.values()) else "NONE",
                "dataCenters": [{"id": c, "name": c, "availability": "LOW"} for c, found in free.items() if found], "cudaVersions": [{"version": v, "available": a} for v, a in versions.items()],
            })  # fmt: skip
        return json_reply({"gpus": rows})

    def _billing(self, request: Request) -> Reply:
        pod = self.pods.get(request.query["podId"][0])
        hours = (self.clock.time() - pod.created) / 3600 if pod else 0.0
        records = [{"startTime": stamp(pod.created), "endTime": stamp(self.clock.time()), "podId": pod.id, "totalAmount": round(hours * pod.price, 6), "gpuAmount": 0}] if pod else []
        return json_reply({"records": records, "metadata": {}})

    # --- behind the proxy

    def _proxied(self, request: Request) -> Reply:
        _, _, pod_id, _, *rest = request.path.split("/")
        pod, path = self.pods.get(pod_id), "/" + "/".join(rest)
        if pod is None or self.status(pod) != "RUNNING":
            return Reply(404 if pod is None or pod.terminated else 502, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})
        if path == "/ready":
            return json_reply({"status": "ready"}) if self.serves(pod) else json_reply({"status": "not ready", "reason": "loading weights"}, 503)
        if request.headers.get("authorization") != f"Bearer {ENDPOINT_KEY}":
            return json_reply({"type": "error", "error": {"type": "authentication_error", "message": "no key"}}, 401)
        if path == "/v1/models":
            return json_reply({"object": "list", "data": [{"id": "claude-nemotron", "object": "model", "max_model_len": pod.body.get("_context", 1048576)}]})
        return Reply(200, echo_stream(json.loads(request.body)), {"Content-Type": "text/event-stream"})


def echo_stream(asked: dict[str, Any]) -> bytes:
    """A legal Anthropic stream that says the last word of the question."""
    word = asked["messages"][-1]["content"].split()[-1]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 9, "output_tokens": 0}}}, {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}},
        {"type": "content_block_stop", "index": 0}, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}, {"type": "message_stop"},
    ]  # fmt: skip
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def problem(status: int, detail: str, **more: Any) -> Reply:
    """An error as RFC 9457 has it."""
    return Reply(status, json.dumps({"title": "Problem", "status": status, "detail": detail, **more}).encode(), {"Content-Type": "application/problem+json"})


def stamp(at: float) -> str:
    """A time as RunPod writes it."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat().replace("+00:00", "Z")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
