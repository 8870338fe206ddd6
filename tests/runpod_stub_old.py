"""The played RunPod by its older interfaces: REST v1 below /v1, and GraphQL at /graphql. The official SDK works against the latter."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.runpod_stub import CAPACITY, RunpodStub, StubPod
from tests.unit.deploy.servers import Reply, Request, json_reply

WORD = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([\[\]{}:,])|([A-Za-z0-9_.+-]+))')


class OldRunpod(RunpodStub):
    """One account behind the older interfaces."""

    def routed(self, request: Request) -> Reply:
        if request.path == "/graphql":
            return self._graphql(json.loads(request.body)["query"])
        if request.path.startswith("/v1/"):
            return self._v1(request)
        return super().routed(request)

    # --- REST v1

    def _v1(self, request: Request) -> Reply:
        body, parts = json.loads(request.body) if request.body else {}, request.path.strip("/").split("/")
        match (request.method, *parts[1:]):
            case ("GET", "pods"):
                return json_reply([self._old(p) for p in self.living()])
            case ("GET", "pods", pod_id):
                return json_reply(self._old(self.pods[pod_id])) if pod_id in {p.id for p in self.living()} else json_reply({"error": "pod not found", "status": 404}, 404)
            case ("POST", "pods"):
                v2 = {
                    "name": body["name"], "cloud": body["cloudType"], "image": body["imageName"], "cmd": body["dockerStartCmd"], "disk": body["containerDiskInGb"], "ports": body["ports"],
                    "env": body["env"], "dataCenterIds": body.get("dataCenterIds", []),
                    "gpu": {"id": body["gpuTypeIds"][0], "count": body["gpuCount"], "allowedCudaVersions": body.get("allowedCudaVersions", [])},
                }  # fmt: skip
                answer = self.created(v2)
                if answer.status == 201:
                    return json_reply(self._old(self.pods[json.loads(answer.body)["id"]]), 201)
                said = "There are no instances currently available" if CAPACITY in answer.body.decode() else json.loads(answer.body)["detail"]
                return json_reply({"error": f"create pod: {said}", "status": 500}, 500)
            case ("DELETE", "pods", pod_id):
                self.pods[pod_id].terminated = True
                return Reply(204)
            case ("POST", "pods", pod_id, "stop"):
                self.pods[pod_id].stopped = True
                return json_reply(self._old(self.pods[pod_id]))
            case ("POST", "pods", pod_id, "start"):
                return json_reply({"error": "start pod: There are not enough free GPUs on the host machine to start this pod.", "status": 500}, 500)
            case ("GET", "containerregistryauth"):
                return json_reply([{"id": found, "name": kept["name"]} for found, kept in self.registries.items()])
            case ("POST", "containerregistryauth"):
                return json_reply({"id": self.registry(body), "name": body["name"]})
            case ("GET", "templates"):
                return json_reply(list(self.templates.values()))
            case ("POST", "templates"):
                self.templates["t1"] = {"id": "t1", **body}
                return json_reply(self.templates["t1"])
            case ("PATCH", "templates", template_id):
                self.templates[template_id] |= body
                return json_reply(self.templates[template_id])
        return json_reply({"error": "no such route", "status": 404}, 404)

    def _old(self, pod: StubPod) -> dict[str, Any]:
        """A pod as v1 answers it: the price as a text, the wish as its status, a port once it runs."""
        status, body = self.status(pod), pod.body
        return {
            "id": pod.id, "name": body["name"], "desiredStatus": "EXITED" if status == "EXITED" else "RUNNING", "image": body.get("image"), "machineId": "m1", "costPerHr": str(pod.price),
            "gpu": {"id": body["gpu"]["id"], "count": body["gpu"]["count"]}, "containerDiskInGb": body.get("disk"), "ports": body.get("ports"), "env": body.get("env"),
            "portMappings": {"22": 10341} if status == "RUNNING" else None, "publicIp": "100.65.0.119" if status == "RUNNING" else "", "lastStartedAt": None,
            "machine": {"dataCenterId": pod.center, "gpuTypeId": body["gpu"]["id"], "secureCloud": True},
        }  # fmt: skip

    # --- GraphQL

    def _graphql(self, query: str) -> Reply:
        name = next(n for n in ("podFindAndDeployOnDemand", "podTerminate", "podStop", "podResume", "podRestart", "saveTemplate", "gpuTypes", "podTemplates", "pods", "pod(") if n in query)
        asked = self._input(query)
        pod = self.pods.get(str(asked.get("podId")))
        if name in ("podTerminate", "podStop", "podResume", "podRestart", "pod(") and (pod is None or pod.terminated):
            return self._error("pod not found to terminate") if name == "podTerminate" else json_reply({"data": {"pod": None}}) if name == "pod(" else self._error("pod not found")
        if name == "podFindAndDeployOnDemand":
            return self._deployed(asked)
        if name == "gpuTypes":
            return json_reply({"data": {"gpuTypes": [self._type(g.id, g.price) for g in self.gpus if asked.get("id") in (None, g.id)]}})
        if name == "podTemplates":
            return json_reply({"data": {"myself": {"podTemplates": list(self.templates.values())}}})
        if name == "saveTemplate":
            self.templates["t1"] = {"id": "t1", **asked}
            return json_reply({"data": {"saveTemplate": self.templates["t1"]}})
        if name == "pods":
            return json_reply({"data": {"myself": {"pods": [self._node(p) for p in self.living()]}}})
        assert pod is not None
        if name == "podTerminate":
            pod.terminated = True
            return json_reply({"data": {"podTerminate": None}})
        pod.stopped = name == "podStop" or (pod.stopped and name != "podResume")
        return json_reply({"data": {name.rstrip("("): self._node(pod)}})

    def _deployed(self, asked: dict[str, Any]) -> Reply:
        held = json.loads(asked["dockerArgs"]) if asked.get("dockerArgs") else {}
        gpu = {"id": asked["gpuTypeId"], "count": asked.get("gpuCount", 1), **{k: asked[k] for k in ("allowedCudaVersions", "minCudaVersion") if asked.get(k)}}
        answer = self.created({
            "name": asked["name"], "cloud": str(asked["cloudType"]), "image": asked["imageName"], "cmd": held.get("cmd", []), "disk": asked.get("containerDiskInGb"),
            "ports": (asked.get("ports") or "").split(","), "env": {e["key"]: e["value"] for e in asked.get("env", [])}, "gpu": gpu,
            "dataCenterIds": [asked["dataCenterId"]] if asked.get("dataCenterId") else [],
        })  # fmt: skip
        if answer.status != 201:
            return self._error(json.loads(answer.body)["detail"])
        return json_reply({"data": {"podFindAndDeployOnDemand": self._node(self.pods[json.loads(answer.body)["id"]])}})

    def _node(self, pod: StubPod) -> dict[str, Any]:
        status, body = self.status(pod), pod.body
        return {
            "id": pod.id, "name": body["name"], "desiredStatus": "EXITED" if status == "EXITED" else "RUNNING", "imageName": body.get("image"), "machineId": "m1", "costPerHr": pod.price,
            "dockerArgs": json.dumps({"cmd": body.get("cmd", [])}), "containerDiskInGb": body.get("disk"), "env": [f"{k}={v}" for k, v in (body.get("env") or {}).items()],
            "ports": ",".join(body.get("ports") or []), "gpuCount": body["gpu"]["count"], "uptimeSeconds": 5, "machine": {"gpuDisplayName": body["gpu"]["id"], "podHostId": "h"},
            "runtime": {"ports": []} if status == "RUNNING" else None,
        }  # fmt: skip

    def _type(self, gpu_id: str, price: float) -> dict[str, Any]:
        return {
            "id": gpu_id, "displayName": gpu_id.removeprefix("NVIDIA "), "memoryInGb": 48, "maxGpuCount": 8, "secureCloud": True, "communityCloud": False, "securePrice": price,
            "communityPrice": None, "lowestPrice": {"stockStatus": "Low", "uninterruptablePrice": price, "minimumBidPrice": None},
        }  # fmt: skip

    def _error(self, message: str) -> Reply:
        return json_reply({"errors": [{"message": message, "extensions": {"code": "BAD_USER_INPUT"}}], "data": None})

    def _input(self, query: str) -> dict[str, Any]:
        """The first `input:` object of a query, read as GraphQL reads it; an ill-formed one raises."""
        start = query.find("input:")
        if start < 0:
            return {}
        words = [m.group(0).strip() for m in WORD.finditer(query, start + len("input:"))]
        value = _value(words)
        assert isinstance(value, dict)
        return value


def _value(words: list[str]) -> Any:
    word = words.pop(0)
    if word == "{":
        found = {}
        while words[0] != "}":
            key = words.pop(0)
            assert re.fullmatch(r"[A-Za-z_]\w*", key) and words.pop(0) == ":", f"not a field of an input: {key}"
            found[key] = _value(words)
            if words[0] == ",":
                words.pop(0)
        words.pop(0)
        return found
    if word == "[":
        items = []
        while words[0] != "]":
            items.append(_value(words))
            if words[0] == ",":
                words.pop(0)
        words.pop(0)
        return items
    if word[0] == '"':
        return json.loads(word)
    return {"true": True, "false": False, "null": None}.get(word, int(word) if word.lstrip("-").isdecimal() else word)
