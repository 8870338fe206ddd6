"""RunPod by GraphQL, for accounts that need it: what the `runpod` SDK speaks, with the fields that release 1.12.0 of it asks for.

Spoken by hand and not through the SDK, because the SDK pastes values into its queries as they are (a quote in a variable breaks the
query), asks for SSH, sends no registry credential and no CUDA floor, and never says the price. RunPod announced GraphQL's end for early 2027.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.deploy.answers import mapping, number, rows, text, texts, whole
from compiler.deploy.provider import (
    Action,
    Candidate,
    Charge,
    GpuOffer,
    LogLine,
    LogSource,
    Pod,
    PodStatus,
    StockQuestion,
    Template,
    Wanted,
)
from compiler.deploy.provider_errors import (
    Garbled,
    KeyRefused,
    Missing,
    NoMoney,
    ProviderError,
    Refused,
    ServerFailed,
    Unsupported,
)
from compiler.deploy.runpod_base import RunpodTransport
from compiler.deploy.runpod_common import CLOUDS, TRANSIENT, argv_of, container_fields, placed, stock, stored_args
from compiler.targets.runpod import v2

BASE_URL = "https://api.runpod.io"
_POD = (
    "id name desiredStatus imageName dockerArgs containerDiskInGb env ports costPerHr gpuCount machineId uptimeSeconds "
    "runtime { ports { privatePort } } machine { gpuDisplayName }"
)
_GPU = "id displayName memoryInGb maxGpuCount secureCloud communityCloud securePrice communityPrice"
_TEMPLATE = "id name imageName dockerArgs containerDiskInGb ports env { key value } containerRegistryAuthId"


class Word(str):
    """A word of GraphQL that is written without quotes."""

    __slots__ = ()


def literal(value: object) -> str:
    """A value as GraphQL writes it. A text is written as JSON does it, which escapes what GraphQL wants escaped."""
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


class RunpodGraphql(RunpodTransport):
    """RunPod's GraphQL behind the `Provider` interface."""

    def catalogue(self, question: StockQuestion) -> tuple[GpuOffer, ...]:
        """GPU types with list prices and overall stock; GraphQL's stock by data center is not documented."""
        asked: dict[str, object] = {"gpuCount": question.count, "secureCloud": question.cloud == "SECURE"}
        lowest = question.cuda.floor or (
            min(question.cuda.exact, key=lambda v: [int(p) for p in v.split(".")]) if question.cuda.exact else None
        )
        if lowest:
            asked["minCudaVersion"] = lowest
        data = self._asked(
            f"query {{ gpuTypes {{ {_GPU} lowestPrice(input: {literal(asked)}) {{ stockStatus uninterruptablePrice }} }} }}"
        )
        return tuple(offer for row in rows(data.get("gpuTypes")) if (offer := _offer(row)) is not None)

    def template(self, name: str) -> Template | None:
        """The account's own template of that name."""
        data = self._asked(f"query {{ myself {{ podTemplates {{ {_TEMPLATE} }} }} }}")
        found = (_template(row) for row in rows(mapping(data.get("myself")).get("podTemplates")))
        return next((t for t in found if t is not None and t.name == name), None)

    def write_template(self, wanted: Wanted, existing: Template | None) -> Template:
        """Create the template, or change the existing one. A template of GraphQL has no CUDA pin."""
        body = v2.template(wanted.plan, wanted.command)
        asked = {
            **_container(body),
            "name": body["name"],
            "volumeInGb": 0,
            "isPublic": False,
            "isServerless": False,
            "startSsh": body["startSsh"],
            "startJupyter": False,
            "readme": "",
        }
        if existing is not None:
            asked["id"] = existing.id
        made = _template(
            mapping(
                self._asked(f"mutation {{ saveTemplate(input: {literal(asked)}) {{ {_TEMPLATE} }} }}", changes=True).get("saveTemplate")
            )
        )
        if made is None:
            raise Garbled("RunPod's answer to a template that was written has no id")
        return made

    def template_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a template of `wanted` would hold."""
        return _fields(_container(v2.template(wanted.plan, wanted.command)))

    def pod_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a pod of `wanted` would hold. The credential is not in GraphQL's answers, so it is not compared."""
        return _without_registry(_fields(_container(v2.pod(wanted.plan, wanted.command))))

    def pods(self) -> list[Pod]:
        """All pods of the account."""
        data = self._asked(f"query {{ myself {{ pods {{ {_POD} }} }} }}")
        found = (self._pod(row) for row in rows(mapping(data.get("myself")).get("pods")))
        return [pod for pod in found if pod is not None and pod.status is not PodStatus.TERMINATED]

    def pod(self, pod_id: str) -> Pod:
        """One pod. Raises Missing when it is gone."""
        row = self._asked(f"query {{ pod(input: {literal({'podId': pod_id})}) {{ {_POD} }} }}").get("pod")
        pod = self._pod(mapping(row))
        if pod is None or pod.status is PodStatus.TERMINATED:
            raise Missing(f"there is no pod {pod_id}")
        return pod

    def create(self, wanted: Wanted, name: str, candidate: Candidate) -> Pod:
        """Ask once for one candidate."""
        body = placed(v2.pod(wanted.plan, wanted.command), name, candidate)
        gpu = mapping(body["gpu"])
        asked: dict[str, object] = {
            **_container(body),
            "name": name,
            "cloudType": Word(candidate.cloud),
            "gpuTypeId": candidate.gpu_id,
            "gpuCount": candidate.count,
            "volumeInGb": 0,
            "dataCenterId": candidate.data_center,
            "startSsh": body["startSsh"],
            "startJupyter": False,
            "supportPublicIp": bool(body["startSsh"]),
        }
        asked |= {key: gpu[key] for key in ("allowedCudaVersions", "minCudaVersion") if key in gpu}
        if "minRamPerGpu" in gpu:
            asked["minMemoryInGb"] = gpu["minRamPerGpu"] * candidate.count
        volume = next(rows(mapping(body.get("mounts")).get("network")), None)
        if volume:
            asked |= {"networkVolumeId": volume.get("volumeId"), "volumeMountPath": volume.get("path")}
        data = self._asked(f"mutation {{ podFindAndDeployOnDemand(input: {literal(asked)}) {{ {_POD} }} }}", changes=True)
        pod = self._pod(mapping(data.get("podFindAndDeployOnDemand")))
        if pod is None:
            raise Garbled("RunPod's answer to a pod that was created has no id")
        return pod

    def act(self, pod: Pod, action: Action) -> None:
        """Stop, start, restart or terminate."""
        this = {"podId": pod.id}
        calls = {
            "stop": f"podStop(input: {literal(this)}) {{ id }}",
            "start": f"podResume(input: {literal(this | {'gpuCount': pod.gpu_count or 1})}) {{ id }}",
            "restart": f"podRestart(input: {literal(this)}) {{ id }}",
            "terminate": f"podTerminate(input: {literal(this)})",
        }
        try:
            self._asked(f"mutation {{ {calls[action]} }}", changes=action in ("start", "restart"))
        except Missing:
            if action != "terminate":
                raise

    def logs(self, pod_id: str, *, tail: int, source: LogSource | None = None, follow: bool = False) -> Iterator[LogLine]:
        """GraphQL has no logs."""
        raise Unsupported("GraphQL has no logs")

    def secret_names(self) -> frozenset[str] | None:
        """None: GraphQL can create and delete secrets, and not list them."""
        return None

    def registry_credential(self, name: str, username: str, password: str) -> str | None:
        """Raises Unsupported: credentials are kept by REST."""
        raise Unsupported("GraphQL is not asked for registry credentials", fix="Leave --transport out.")

    def charges(self, pod_id: str, since: float) -> list[Charge] | None:
        """None: GraphQL has no billing records."""
        return None

    def _asked(self, query: str, *, changes: bool = False) -> Mapping[str, Any]:
        """The `data` of an answer. GraphQL says 200 to everything, and what went wrong inside."""
        body = mapping(self.api.send("POST", "/graphql", body={"query": query}, again=not changes).body)
        said = next((text(row.get("message")) or "no reason given" for row in rows(body.get("errors"))), None)
        if said is None:
            return mapping(body.get("data"))
        raise _problem(self.api.cleaned(said))

    def _pod(self, row: Mapping[str, Any]) -> Pod | None:
        """A pod as GraphQL describes it. The wish to run is there at once; until there is a `runtime` it is still starting."""
        found, said = text(row.get("id")), (text(row.get("desiredStatus")) or "RUNNING").upper()
        if not found:
            return None
        status = PodStatus(said) if said in PodStatus.__members__ else PodStatus.UNKNOWN
        uptime = number(row.get("uptimeSeconds")) if row.get("runtime") is not None else None
        if status is PodStatus.RUNNING and row.get("runtime") is None:
            status = PodStatus.STARTING
        return Pod(
            id=found,
            name=text(row.get("name")) or "",
            status=status,
            gpu_id=text(mapping(row.get("machine")).get("gpuDisplayName")),
            gpu_count=whole(row.get("gpuCount")),
            price_usd_h=number(row.get("costPerHr")),
            machine=text(row.get("machineId")),
            uptime_s=uptime,
            fields=_without_registry(_fields(row)),
            started=self.api.time() - uptime if uptime else None,
        )


def _problem(said: str) -> ProviderError:
    """GraphQL's sentence as one of our errors."""
    lowered, what = said.casefold(), f"RunPod refuses: {said}"
    kinds: tuple[tuple[type[ProviderError], tuple[str, ...]], ...] = (
        (KeyRefused, ("unauthorized", "not authenticated", "api key")),
        (Missing, ("not found",)),
        (NoMoney, ("balance", "insufficient funds", "credit")),
        (ServerFailed, TRANSIENT),
    )
    return next((kind(what, detail=said) for kind, words in kinds if any(w in lowered for w in words)), Refused(what, detail=said))


def _container(body: Mapping[str, Any]) -> dict[str, object]:
    """A v2 body's container in GraphQL's names."""
    entrypoint, command = argv_of(body)
    found: dict[str, object] = {
        "imageName": body.get("image"),
        "dockerArgs": stored_args(entrypoint, command),
        "containerDiskInGb": body.get("disk"),
        "ports": ",".join(texts(body.get("ports"))),
        "env": [{"key": name, "value": value} for name, value in mapping(body.get("env")).items()],
    }
    return found | ({"containerRegistryAuthId": body["registry"]} if body.get("registry") else {})


def _fields(row: Mapping[str, Any]) -> dict[str, str]:
    entrypoint, command = argv_of(row)
    listed = row.get("env") if isinstance(row.get("env"), list) else []
    env = {
        name: value
        for item in listed or ()
        for name, _, value in [item.partition("=") if isinstance(item, str) else (mapping(item).get("key"), "", mapping(item).get("value"))]
        if name
    }
    ports = (text(row.get("ports")) or "").replace(" ", "")
    return container_fields(
        image=row.get("imageName"),
        entrypoint=entrypoint,
        command=command,
        disk=row.get("containerDiskInGb"),
        ports=[p for p in ports.split(",") if p],
        env=env,
        registry=row.get("containerRegistryAuthId"),
    )


def _without_registry(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name != "registry"}


def _template(row: Mapping[str, Any]) -> Template | None:
    found = text(row.get("id"))
    return Template(found, text(row.get("name")) or "", _fields(row)) if found else None


def _offer(row: Mapping[str, Any]) -> GpuOffer | None:
    found = text(row.get("id"))
    if not found:
        return None
    priced = {cloud: number(row.get(f"{cloud.lower()}Price")) for cloud in CLOUDS if row.get(f"{cloud.lower()}Cloud") is not False}
    most = whole(row.get("maxGpuCount"))
    return GpuOffer(
        id=found,
        name=text(row.get("displayName")) or found,
        memory_gb=whole(row.get("memoryInGb")),
        stock=stock(mapping(row.get("lowestPrice")).get("stockStatus")),
        prices={c: p for c, p in priced.items() if p},
        centers={},
        cuda={},
        max_count=dict.fromkeys(CLOUDS, most) if most else {},
        centers_known=False,
    )
