"""What RunPod's three transports share: their client, the public addresses, and the clock."""

from __future__ import annotations

from compiler.deploy.http_api import ApiClient
from compiler.deploy.provider import Pod
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
