"""RunPod by REST v2, the default transport. Source: RunPod's OpenAPI document of 2026-08-18 and the changes known up to 2026-10."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.deploy.answers import mapping, moment, number, rows, text, whole
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
from compiler.deploy.provider_errors import Forbidden, Garbled, Invalid, Missing, ProviderError
from compiler.deploy.runpod_base import RunpodTransport, kept_registry
from compiler.deploy.runpod_common import CLOUDS, argv_of, placed, stock, stored_args, v2_fields

BASE_URL = "https://api.runpod.io"
# The stream is silent until a line exists: what was logged so far comes at once, so that this much silence is its end.
LOG_IDLE_S = 2.0
# A page is at most 1,000 rows; a server that repeats its cursor must not keep us asking.
MAX_PAGES = 50


class RunpodV2(RunpodTransport):
    """RunPod's REST v2 behind the `Provider` interface."""

    _sends_arrays = True

    def catalogue(self, question: StockQuestion) -> tuple[GpuOffer, ...]:
        """GPU types with prices and stock for pods."""
        params: dict[str, str | int] = {"include": "AVAILABILITY", "product": "POD", "count": question.count, "cloud": question.cloud}
        if question.cuda.floor:
            params["minCudaVersion"] = question.cuda.floor
        elif question.cuda.exact:
            params["cudaVersions"] = ",".join(question.cuda.exact)
        found = (offer_of(row) for row in rows(mapping(self.api.get("/v2/catalog/gpus", params)).get("gpus")))
        return tuple(offer for offer in found if offer is not None)

    def template(self, name: str) -> Template | None:
        """The account's own template of that name."""
        return next((t for t in map(template_of, self._all("/v2/templates", "templates")) if t is not None and t.name == name), None)

    def write_template(self, wanted: Wanted, existing: Template | None) -> Template:
        """Create the template, or change the existing one."""
        body = _template_body(wanted)
        if existing is None:
            made = template_of(self._sent_container("POST", "/v2/templates", body))
        else:
            kept = {k: v for k, v in body.items() if k not in ("category", "serverless")}
            # What the profile no longer names must go, and an omitted field would stay.
            kept = {"entrypoint": [], "cmd": [], "allowedCudaVersions": [], **kept}
            made = template_of(self._sent_container("PATCH", f"/v2/templates/{existing.id}", kept))
        if made is None:
            raise Garbled("RunPod's answer to a template that was written has no id")
        return made

    def template_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a template of `wanted` would hold."""
        return template_fields(_template_body(wanted))

    def pod_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a pod of `wanted` would hold."""
        return v2_fields(_pod_body(wanted))

    def pods(self) -> list[Pod]:
        """All pods of the account that are not terminated, each once: the name of the cursor parameter is not documented, and a server
        that does not know ours gives its first page again."""
        found = {pod.id: pod for row in self._all("/v2/pods", "pods") if (pod := pod_of(row)) is not None}
        return [pod for pod in found.values() if pod.status is not PodStatus.TERMINATED]

    def pod(self, pod_id: str) -> Pod:
        """One pod. Raises Missing when it is gone."""
        pod = pod_of(mapping(self.api.get(f"/v2/pods/{pod_id}")))
        if pod is None:
            raise Garbled(f"RunPod's answer about pod {pod_id} has no id")
        if pod.status is PodStatus.TERMINATED:
            raise Missing(f"pod {pod_id} was terminated")
        return pod

    def create(self, wanted: Wanted, name: str, candidate: Candidate) -> Pod:
        """Ask once for one candidate. An old server that does not know `cmd` gets the same as `args`."""
        pod = pod_of(self._sent_container("POST", "/v2/pods", placed(_pod_body(wanted), name, candidate)))
        if pod is None:
            raise Garbled("RunPod's answer to a pod that was created has no id")
        return pod

    def act(self, pod: Pod, action: Action) -> None:
        """Stop, start, restart or terminate."""
        try:
            if action == "terminate":
                self.api.send("DELETE", f"/v2/pods/{pod.id}", again=True)
            else:
                self.api.send("POST", f"/v2/pods/{pod.id}/action", body={"action": action}, again=action == "stop")
        except Missing:
            if action != "terminate":
                raise

    def logs(self, pod_id: str, *, tail: int, source: LogSource | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of the event stream."""
        params: dict[str, str | int] = {"tail": min(tail, 5000), **({"source": source} if source else {})}
        for line in self.api.lines(f"/v2/pods/{pod_id}/logs", params, idle_s=None if follow else LOG_IDLE_S):
            if line.startswith("data:") and (found := _log_line(line.removeprefix("data:"))) is not None:
                yield found

    def secret_names(self) -> frozenset[str] | None:
        """Names of the account's secrets; None where the key may not list them, or the server has no such list."""
        try:
            found = rows(mapping(self.api.get("/v2/account/secrets")).get("secrets"))
        except (Missing, Forbidden):
            return None
        return frozenset(name for row in found if (name := text(row.get("name"))))

    def registry_credential(self, name: str, username: str, password: str) -> str:
        """The id of the account's registry credential of that name."""
        return kept_registry(self.api, "/v2/registries", self._all("/v2/registries", "registries"), name, username, password)

    def charges(self, pod_id: str, since: float) -> list[Charge]:
        """Hourly records of what the pod cost."""
        hours = max(1, min(2160, int((self.api.time() - since) // 3600) + 2))
        body = mapping(self.api.get("/v2/billing/pods", {"podId": pod_id, "bucketSize": "hour", "lastN": hours}))
        records = (
            (moment(r.get("startTime")), moment(r.get("endTime")), number(r.get("totalAmount")), text(r.get("podId")))
            for r in rows(body.get("records"))
        )
        return [
            Charge(start, end, usd)
            for start, end, usd, owner in records
            if start is not None and end is not None and usd is not None and owner in (None, pod_id)
        ]

    def _all(self, path: str, key: str) -> Iterator[Mapping[str, Any]]:
        """Every row of a list, page by page."""
        params: dict[str, str | int] = {}
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            body = mapping(self.api.get(path, params))
            yield from rows(body.get(key))
            cursor = text(mapping(body.get("pagination")).get("nextCursor"))
            if cursor is None or cursor in seen:
                return
            seen.add(cursor)
            params = {"cursor": cursor}

    def _sent_container(self, method: str, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        """Send a body with a container in it: with arrays, and with the stored form where the server refuses those."""
        if self._sends_arrays:
            try:
                return mapping(self.api.send(method, path, body=body, again=False).body)
            except Invalid as refusal:
                if not _names_arrays(refusal):
                    raise
                self._sends_arrays = False
        entrypoint, command = argv_of(body)
        stored = {k: v for k, v in body.items() if k not in ("cmd", "entrypoint")}
        if entrypoint or command:
            stored["args"] = stored_args(entrypoint, command)
        return mapping(self.api.send(method, path, body=stored, again=False).body)


def _pod_body(wanted: Wanted) -> dict[str, object]:
    """The bundle's own pod body. Only commands that make one wait for the import."""
    from compiler.targets.runpod import v2

    return v2.pod(wanted.plan, wanted.command)


def _template_body(wanted: Wanted) -> dict[str, object]:
    from compiler.targets.runpod import v2

    return v2.template(wanted.plan, wanted.command)


def _names_arrays(refusal: ProviderError) -> bool:
    """Whether a validation error is about the arrays that interfaces before autumn 2026 did not have."""
    return "additional properties" in refusal.detail and any(f"'{name}'" in refusal.detail for name in ("cmd", "entrypoint"))


def template_fields(body: Mapping[str, Any]) -> dict[str, str]:
    """A template's fields: a container's, and the CUDA versions that it is pinned to."""
    versions = body.get("allowedCudaVersions")
    return v2_fields(body) | {"cuda": " ".join(v for v in versions if isinstance(v, str)) if isinstance(versions, list) else ""}


def template_of(row: Mapping[str, Any]) -> Template | None:
    """A template of the list; None for a row without id."""
    found = text(row.get("id"))
    return Template(found, text(row.get("name")) or "", template_fields(row)) if found else None


def pod_of(row: Mapping[str, Any]) -> Pod | None:
    """A pod as v2 describes it; None for a row without id."""
    found = text(row.get("id"))
    if not found:
        return None
    gpu, said = mapping(row.get("gpu")), (text(row.get("status")) or "").upper()
    return Pod(
        id=found,
        name=text(row.get("name")) or "",
        status=PodStatus(said) if said in PodStatus.__members__ else PodStatus.UNKNOWN,
        gpu_id=text(gpu.get("id")),
        gpu_count=whole(gpu.get("count")),
        cloud=text(row.get("cloud")),
        data_center=text(row.get("dataCenterId")),
        cuda=text(row.get("cudaVersion")),
        price_usd_h=number(row.get("cost")),
        created=moment(row.get("createdAt")),
        started=moment(row.get("startedAt")),
        uptime_s=number(mapping(row.get("runtime")).get("uptime")),
        fields=v2_fields(row),
    )


def offer_of(row: Mapping[str, Any]) -> GpuOffer | None:
    """A GPU type of the catalogue; None for a row without id. A data center or a version that is not named has none free."""
    found = text(row.get("id"))
    if not found:
        return None
    prices, most = mapping(row.get("price")), mapping(row.get("maxCount"))
    priced = {cloud: number(prices.get(cloud.lower())) for cloud in CLOUDS if row.get(cloud.lower()) is not False}
    return GpuOffer(
        id=found,
        name=text(row.get("name")) or found,
        memory_gb=whole(row.get("memory")),
        stock=stock(row.get("availability")),
        prices={c: p for c, p in priced.items() if p},
        centers={c: stock(d.get("availability")) for d in rows(row.get("dataCenters")) if (c := text(d.get("id")))},
        cuda={v: d.get("available") is True for d in rows(row.get("cudaVersions")) if (v := text(d.get("version")))},
        max_count={c: n for c in CLOUDS if (n := whole(most.get(c.lower()))) is not None},
    )


def _log_line(data: str) -> LogLine | None:
    try:
        row = mapping(json.loads(data))
    except (ValueError, RecursionError):
        return None
    said = row.get("line")
    source: LogSource = "system" if row.get("source") == "system" else "container"
    return LogLine(text(row.get("ts")) or "", source, said.rstrip("\n")) if isinstance(said, str) else None
