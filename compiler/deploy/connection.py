"""Which provider a profile's target means, and the way to it: addresses and keys from the environment, nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import httpx

from compiler.deploy.clock import Clock
from compiler.deploy.failures import DockerUnavailable
from compiler.deploy.http_api import ApiClient
from compiler.deploy.provider import Provider
from compiler.deploy.provider_errors import KeyMissing
from compiler.deploy.refusals import WrongTarget
from compiler.deploy.runpod_common import PROXY
from compiler.deploy.state_file import StateFile

Transport: TypeAlias = Literal["v2", "v1", "graphql"]
KEY_ENV = "RUNPOD_API_KEY"
# For those who reach RunPod through an address of their own, and for tests. {pod} and {port} are filled in.
URL_ENV, PROXY_ENV = "PODWRIGHT_RUNPOD_URL", "PODWRIGHT_RUNPOD_PROXY"


def connected(
    target: str,
    environment: Mapping[str, str],
    *,
    transport: Transport = "v2",
    clock: Clock | None = None,
    on_wait: Callable[[str], None] = lambda text: None,
) -> Provider:
    """The provider of a target. Asks nothing yet. Raises KeyMissing, WrongTarget."""
    if target == "docker":
        from compiler.deploy.docker_provider import DockerProvider

        return DockerProvider(environment, on_wait)
    if target != "runpod":
        raise WrongTarget(
            f"the target {target!r} has no provider to deploy to",
            "This command makes and watches pods of a provider.",
            "Use a profile with `target: runpod` or `target: docker`.",
        )
    key = environment.get(KEY_ENV, "").strip()
    if not key:
        raise KeyMissing(f"{KEY_ENV} is not set")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise KeyMissing(
            f"{KEY_ENV} holds characters that no key has", fix=f"Copy the key again, on one line and without quotes, into {KEY_ENV}."
        )
    default, made = _transport(transport)
    base = environment.get(URL_ENV, "").strip() or default
    if httpx.URL(base).scheme not in ("http", "https"):
        raise WrongTarget(
            f"{URL_ENV} is {base!r}, which is no http address",
            "The provider is asked there.",
            f"Unset {URL_ENV}, or set it to an address that starts with https://.",
        )
    api = ApiClient(base, key, who="RunPod", clock=clock, on_wait=on_wait)
    return made(api, environment.get(PROXY_ENV, "").strip() or PROXY)


def provider_name(file: StateFile) -> str:
    """Where a profile's pod is: as its state file says; where that is lost, this machine's Docker engine if it has one, else RunPod."""
    if file.path.exists():
        return file.read().provider
    from compiler.deploy.docker_engine import engine
    from compiler.deploy.docker_provider import has_pod_of

    try:
        with engine() as client:
            return "docker" if has_pod_of(client, file.profile) else "runpod"
    except DockerUnavailable:
        return "runpod"


def _transport(name: Transport) -> tuple[str, Callable[[ApiClient, str], Provider]]:
    """A transport's usual address and its class; only the one that is asked for is imported."""
    if name == "v1":
        from compiler.deploy import runpod_v1

        return runpod_v1.BASE_URL, runpod_v1.RunpodV1
    if name == "graphql":
        from compiler.deploy import runpod_graphql

        return runpod_graphql.BASE_URL, runpod_graphql.RunpodGraphql
    from compiler.deploy import runpod_v2

    return runpod_v2.BASE_URL, runpod_v2.RunpodV2
