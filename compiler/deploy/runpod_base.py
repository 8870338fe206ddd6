"""What RunPod's three transports share: their client, the public addresses, and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.deploy.answers import mapping, text
from compiler.deploy.http_api import ApiClient
from compiler.deploy.provider import Pod
from compiler.deploy.provider_errors import Garbled
from compiler.deploy.runpod_common import PROXY


class RunpodTransport:
    """The common half of a `Provider`. `proxy` is the pattern of the public addresses."""

    name = "runpod"

    def __init__(self, api: ApiClient, proxy: str = PROXY) -> None:
        self.api, self._proxy = api, proxy

    def endpoint(self, pod: Pod, port: int) -> str:
        """The public address of an http port."""
        return self._proxy.replace("{pod}", pod.id).replace("{port}", str(port))

    def skew_s(self) -> float:
        """How far this machine's clock is ahead of RunPod's."""
        return self.api.skew_s

    def close(self) -> None:
        """Close connections."""
        self.api.close()


def kept_registry(api: ApiClient, path: str, there: Iterable[Mapping[str, Any]], name: str, username: str, password: str) -> str:
    """A registry credential by its name: the one that exists, else a new one. Its host is in the images' names."""
    found = next((text(row.get("id")) for row in there if text(row.get("name")) == name), None)
    made = found or text(mapping(api.send("POST", path, body={"name": name, "username": username, "password": password}, again=False).body).get("id"))
    if made is None:
        raise Garbled("RunPod's answer to a registry credential that was created has no id")
    return made
