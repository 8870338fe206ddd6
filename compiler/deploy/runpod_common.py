"""What RunPod's interfaces have in common: the proxy's address, capacity texts and a pod's fields in the words of `Wanted`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.deploy.answers import mapping, text, texts, whole
from compiler.deploy.provider import Candidate, Cloud, Stock

# RunPod's sentences for "nothing is free", in lower case, from the three interfaces. Any of them can come with a 400 or a 500.
CAPACITY = (
    "no longer any instances available", "no instances currently available", "does not have the resources to deploy",
    "not enough free gpus", "no instances available",
)  # fmt: skip
# A hiccup: the same request may do a moment later.
TRANSIENT = ("something went wrong", "internal server error", "bad gateway", "service unavailable", "timeout", "deadline exceeded")
# What a host answers that let the GPUs go to somebody else while the pod was stopped.
HOST_FULL = "not enough free gpus"
# The public address of an http port.
PROXY = "https://{pod}-{port}.proxy.runpod.net"
CLOUDS: tuple[Cloud, ...] = ("SECURE", "COMMUNITY")


def is_capacity(detail: str) -> bool:
    """Whether a refusal says that nothing is free."""
    lowered = detail.casefold()
    return any(words in lowered for words in CAPACITY)


def stock(value: object) -> Stock:
    """A stock level in any case of letters; absent is none, an unknown word is unknown."""
    said = (text(value) or "NONE").upper()
    return Stock(said) if said in Stock.__members__ else Stock.UNKNOWN


def argv_of(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Entrypoint and command of a pod or template: the lists where they are there, else what the stored text holds."""
    stored = text(body.get("args")) or text(body.get("dockerArgs")) or ""
    entrypoint, command = texts(body.get("entrypoint")), texts(body.get("cmd"))
    if not command and not entrypoint and stored:
        try:
            held = mapping(json.loads(stored))
        except (ValueError, RecursionError):
            return [], _split(stored)
        return texts(held.get("entrypoint")), texts(held.get("cmd"))
    return entrypoint, command


def stored_args(entrypoint: Sequence[str], command: Sequence[str]) -> str:
    """Entrypoint and command in the one text that RunPod stores: a JSON object, which nothing splits."""
    return json.dumps({"cmd": list(command), **({"entrypoint": list(entrypoint)} if entrypoint else {})}, ensure_ascii=False)


def container_fields(
    *, image: object, entrypoint: Sequence[str], command: Sequence[str], disk: object, ports: Sequence[str], env: Mapping[str, Any], registry: object
) -> dict[str, str]:
    """A container as name and text, one entry a variable, to be compared and shown."""
    found = {
        "image": text(image) or "", "entrypoint": shlex.join(entrypoint), "command": shlex.join(command), "disk_gb": str(whole(disk) or ""),
        "ports": " ".join(sorted(ports)), "registry": text(registry) or "",
    }  # fmt: skip
    return found | {f"env {name}": str(value) for name, value in env.items()}


def v2_fields(body: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a REST v2 body or answer."""
    entrypoint, command = argv_of(body)
    return container_fields(
        image=body.get("image"), entrypoint=entrypoint, command=command, disk=body.get("disk"), ports=texts(body.get("ports")),
        env=mapping(body.get("env")), registry=body.get("registry"),
    )  # fmt: skip


def placed(body: Mapping[str, Any], name: str, candidate: Candidate) -> dict[str, Any]:
    """A REST v2 pod body for one candidate. The count always: without it RunPod was seen to match no machine."""
    gpu = {k: v for k, v in mapping(body.get("gpu")).items() if k not in ("allowedCudaVersions", "minCudaVersion")}
    gpu |= {"id": candidate.gpu_id, "count": candidate.count}
    if candidate.cuda.floor:
        gpu["minCudaVersion"] = candidate.cuda.floor
    elif candidate.cuda.exact:
        gpu["allowedCudaVersions"] = list(candidate.cuda.exact)
    made = {**body, "name": name, "cloud": candidate.cloud, "gpu": gpu}
    made.pop("dataCenterIds", None)
    return made if candidate.data_center is None else {**made, "dataCenterIds": [candidate.data_center]}


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:
        return [words]
