"""Names of pods: which profile one belongs to, and a new one that nobody has."""

from __future__ import annotations

import re

from compiler.deploy.provider import Pod, Provider
from compiler.deploy.state_file import PodRecord

PREFIX = "podwright-"
SUFFIX = re.compile(r"-[0-9a-f]{6}")
# Longer names exist at RunPod; 60 characters is what its console still shows whole.
LONGEST = 60
_SUFFIX_LENGTH = 7
# Where the endpoint is when a pod does not say: the default of `bridge.port`.
_DEFAULT_PORT = 8080


def unique_name(pod_name: str, token: str) -> str:
    """A name that no other pod has: six hexadecimal digits behind the profile's."""
    return f"{pod_name[: LONGEST - _SUFFIX_LENGTH]}-{token[:6]}"


def is_name_of(pod_name: str, name: str) -> bool:
    """Whether a pod's name is the profile's, with or without the suffix that makes it unique."""
    base = pod_name[: LONGEST - _SUFFIX_LENGTH]
    return name == pod_name or (name.startswith(base) and SUFFIX.fullmatch(name[len(base):]) is not None)


def profile_of(name: str) -> str | None:
    """The profile that a pod's name speaks of; None for a name that is not ours."""
    if not name.startswith(PREFIX):
        return None
    return re.sub(f"{SUFFIX.pattern}$", "", name.removeprefix(PREFIX)) or None


def http_port(pod: Pod) -> int:
    """The first http port of a pod."""
    found = [port.partition("/")[0] for port in pod.fields.get("ports", "").split() if port.endswith("/http")]
    return min((int(p) for p in found if p.isdecimal()), default=_DEFAULT_PORT)


def record_of(pod: Pod, provider: Provider, port: int, image: str, manifest: str | None, created: float) -> PodRecord:
    """What the state file keeps of a pod."""
    return PodRecord(
        id=pod.id, name=pod.name, url=provider.endpoint(pod, port), image=pod.fields.get("image") or image, manifest=manifest, created=created,
        price_usd_h=pod.price_usd_h, gpu_id=pod.gpu_id, gpu_count=pod.gpu_count, data_center=pod.data_center, cloud=pod.cloud, cuda=pod.cuda,
    )  # fmt: skip
