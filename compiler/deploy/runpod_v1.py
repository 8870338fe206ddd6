"""RunPod by REST v1, for those who still can: RunPod announced its end for 15 November 2026, after which it answers 410.

It knows no host CUDA version, no stock, no secrets and no logs. A 500 of it is as often a refusal as a failure, and it was seen
to answer 500 for a pod that it had created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.deploy.answers import mapping, moment, number, rows, text, texts, whole
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
from compiler.deploy.provider_errors import Garbled, Missing, Refused, ServerFailed, Unsupported
from compiler.deploy.runpod_base import RunpodTransport, kept_registry
from compiler.deploy.runpod_common import TRANSIENT, container_fields
from compiler.targets.runpod import v1

BASE_URL = "https://rest.runpod.io/v1"


class RunpodV1(RunpodTransport):
    """RunPod's REST v1 behind the `Provider` interface."""

    def catalogue(self, question: StockQuestion) -> tuple[GpuOffer, ...] | None:
        """None: v1 has no catalogue."""
        return None

    def template(self, name: str) -> Template | None:
        """The account's own template of that name."""
        found = (_template(row) for row in rows(self.api.get("templates")))
        return next((t for t in found if t is not None and t.name == name), None)

    def write_template(self, wanted: Wanted, existing: Template | None) -> Template:
        """Create the template, or change the existing one; every field is sent, because an omitted one may become its default."""
        body = v1.template(wanted.plan, wanted.command)
        if existing is not None:
            body = {k: v for k, v in body.items() if k not in ("category", "isServerless")}
        path, method = ("templates", "POST") if existing is None else (f"templates/{existing.id}", "PATCH")
        made = _template(mapping(self.api.send(method, path, body=body, again=False).body))
        if made is None:
            raise Garbled("RunPod's answer to a template that was written has no id")
        return made

    def template_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a template of `wanted` would hold."""
        return fields_of(v1.template(wanted.plan, wanted.command))

    def pod_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a pod of `wanted` would hold. The start command is not in v1's answers, so it is not compared."""
        return pod_fields_of(v1.pod(wanted.plan, wanted.command))

    def pods(self) -> list[Pod]:
        """All pods of the account."""
        found = (pod_of(row) for row in rows(self.api.get("pods", {"includeMachine": "true"})))
        return [pod for pod in found if pod is not None and pod.status is not PodStatus.TERMINATED]

    def pod(self, pod_id: str) -> Pod:
        """One pod. Raises Missing when it is gone."""
        pod = pod_of(mapping(self.api.get(f"pods/{pod_id}", {"includeMachine": "true"})))
        if pod is None:
            raise Garbled(f"RunPod's answer about pod {pod_id} has no id")
        if pod.status is PodStatus.TERMINATED:
            raise Missing(f"pod {pod_id} was terminated")
        return pod

    def create(self, wanted: Wanted, name: str, candidate: Candidate) -> Pod:
        """Ask once for one candidate. A 500 with a reason that is not a hiccup's is a refusal."""
        if candidate.cuda.floor:
            raise Unsupported(f"REST v1 cannot ask for CUDA {candidate.cuda}; it takes exact versions only")
        body = {k: v for k, v in v1.pod(wanted.plan, wanted.command).items() if k not in ("dataCenterIds", "dataCenterPriority")}
        body |= {"name": name, "cloudType": candidate.cloud, "gpuTypeIds": [candidate.gpu_id], "gpuCount": candidate.count}
        if candidate.data_center is not None:
            body |= {"dataCenterIds": [candidate.data_center], "dataCenterPriority": "custom"}
        try:
            pod = pod_of(mapping(self.api.send("POST", "pods", body=body, again=False).body))
        except ServerFailed as failure:
            if not failure.detail or any(words in failure.detail.casefold() for words in TRANSIENT):
                raise
            raise Refused(failure.what, detail=failure.detail, status=failure.status) from None
        if pod is None:
            raise Garbled("RunPod's answer to a pod that was created has no id")
        return pod

    def act(self, pod: Pod, action: Action) -> None:
        """Stop, start, restart or terminate."""
        try:
            if action == "terminate":
                self.api.send("DELETE", f"pods/{pod.id}", again=True)
            else:
                self.api.send("POST", f"pods/{pod.id}/{action}", again=action == "stop")
        except Missing:
            if action != "terminate":
                raise
        except ServerFailed as failure:
            if action != "start" or not failure.detail:
                raise
            raise Refused(failure.what, detail=failure.detail, status=failure.status) from None

    def logs(self, pod_id: str, *, tail: int, source: LogSource | None = None, follow: bool = False) -> Iterator[LogLine]:
        """v1 has no logs."""
        raise Unsupported("REST v1 has no logs")

    def secret_names(self) -> frozenset[str] | None:
        """None: v1 cannot list secrets."""
        return None

    def registry_credential(self, name: str, username: str, password: str) -> str:
        """The id of the account's registry credential of that name."""
        return kept_registry(self.api, "containerregistryauth", rows(self.api.get("containerregistryauth")), name, username, password)

    def charges(self, pod_id: str, since: float) -> list[Charge] | None:
        """None: v1's billing has no record of one pod by the hour that was seen."""
        return None


def fields_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a v1 template."""
    return container_fields(
        image=body.get("imageName"),
        entrypoint=texts(body.get("dockerEntrypoint")),
        command=texts(body.get("dockerStartCmd")),
        disk=body.get("containerDiskInGb"),
        ports=texts(body.get("ports")),
        env=mapping(body.get("env")),
        registry=body.get("containerRegistryAuthId"),
    )


def pod_fields_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a v1 pod: without command and entrypoint, and its image under either of two names."""
    found = fields_of({**body, "imageName": body.get("imageName") or body.get("image")})
    return {name: value for name, value in found.items() if name not in ("command", "entrypoint", "registry")}


def _template(row: Mapping[str, Any]) -> Template | None:
    found = text(row.get("id"))
    return Template(found, text(row.get("name")) or "", fields_of(row)) if found else None


def pod_of(row: Mapping[str, Any]) -> Pod | None:
    """A pod as v1 describes it. `desiredStatus` reads RUNNING at once: without a public address or port it is still starting."""
    found = text(row.get("id"))
    if not found:
        return None
    machine, gpu, said = mapping(row.get("machine")), mapping(row.get("gpu")), (text(row.get("desiredStatus")) or "").upper()
    status = PodStatus(said) if said in PodStatus.__members__ else PodStatus.UNKNOWN
    if status is PodStatus.RUNNING and not text(row.get("publicIp")) and not mapping(row.get("portMappings")):
        status = PodStatus.STARTING
    secure = machine.get("secureCloud")
    return Pod(
        id=found,
        name=text(row.get("name")) or "",
        status=status,
        gpu_id=text(gpu.get("id")) or text(machine.get("gpuTypeId")),
        gpu_count=whole(gpu.get("count")),
        cloud="SECURE" if secure is True else "COMMUNITY" if secure is False else None,
        data_center=text(machine.get("dataCenterId")),
        price_usd_h=number(row.get("costPerHr")),
        created=moment(row.get("createdAt")) or moment(row.get("lastStartedAt")),
        started=moment(row.get("lastStartedAt")),
        machine=text(row.get("machineId")),
        fields=pod_fields_of(row),
    )
