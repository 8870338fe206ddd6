"""A run in a container: the emitted image, built here, and started by the bundle's own `run.sh`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping

from compiler.deploy.failures import DockerUnavailable, LocalRunFailed
from compiler.deploy.local import children
from compiler.deploy.local.own import LOOPBACK, moved_ports
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Ports
from compiler.deploy.local.run import Seen, asked, bootstrap_failure
from compiler.plan import Plan

# Bounds a question to the Docker engine, and the removal of a container.
DOCKER_S = 60.0


class ContainerRun:
    """`run.sh` as a process of ours. Docker's client passes signals on, and removes the container when it ends."""

    limit_s = 100.0

    def __init__(self, plan: Plan, places: Places, ports: Ports, key: str, network: str | None, environ: Mapping[str, str]) -> None:
        self._plan, self._places, self._ports, self._network, self._environ = plan, places, ports, network, environ
        self.log = places.log
        self._secrets = places.home / "secrets.env"
        self._key = key

    def start(self) -> subprocess.Popen[bytes]:
        """Start the container. Raises DockerUnavailable, LocalRunFailed or OSError."""
        if shutil.which("docker") is None:
            raise DockerUnavailable("no program `docker` on PATH", "The bundle's run.sh starts the container with it.", "Install Docker's command line, or leave --docker out.")
        if self._stale():
            raise LocalRunFailed(
                f"a container called {self._plan.deploy.pod_name} exists already", "It may be in use.", f"`docker rm -f {self._plan.deploy.pod_name}` removes it."
            )  # fmt: skip
        self._write_secrets()
        env = {**self._environ, "PODWRIGHT_SECRETS": str(self._secrets), "PODWRIGHT_PORT": str(self._ports.endpoint)}
        with self.log.open("wb") as stream:
            return subprocess.Popen([str(self._places.bundle / "run.sh"), *self._options()], env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                    start_new_session=True, preexec_fn=children.dying_with_us(signal.SIGTERM))  # fmt: skip

    def _options(self) -> list[str]:
        """On the machine's own network nothing is published, so the endpoint itself moves and stays on loopback."""
        if self._network is None:
            return []
        inside = {"PODWRIGHT_LISTEN": LOOPBACK, "PODWRIGHT_STATUS_PORT": str(self._ports.status), **moved_ports(self._plan, self._ports)} if self._network == "host" else {}
        return [f"--network={self._network}", *(f"--env={name}={value}" for name, value in inside.items())]

    def _write_secrets(self) -> None:
        """In a file that only this user reads: arguments can be seen by everybody on the machine."""
        values = {secret.env: self._environ[secret.env] for secret in self._plan.secrets if self._environ.get(secret.env)}
        if self._plan.bridge.api_key_env:
            values[self._plan.bridge.api_key_env] = self._key
        descriptor = os.open(self._secrets, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.writelines(f"{name}={value}\n" for name, value in values.items())

    def look(self) -> Seen:
        """What the endpoint says; the container's log before it answers."""
        code, ready = asked(self._ports.endpoint, "/ready")
        failure = bootstrap_failure(self.log.read_text("utf-8", "replace"))
        if code == 200:
            return Seen("serving", serves=True)
        reason = str((ready or {}).get("reason", "")) if isinstance(ready, dict) else ""
        said = reason.removeprefix("The engine is ").rstrip(".")
        if said.startswith("fatal"):
            failure = failure or (said.removeprefix("fatal").strip(" ()"), "")
        return Seen(said.partition(" (")[0] or "starting", said.partition(" (")[2].rstrip(")"), failure=failure)

    def left(self) -> list[str]:
        """The container, where it still exists."""
        return [f"container {self._plan.deploy.pod_name}"] if self._stale() else []

    def remove(self) -> None:
        """Remove it by force."""
        self._docker("rm", "-f", self._plan.deploy.pod_name)

    def _stale(self) -> bool:
        return self._docker("container", "inspect", self._plan.deploy.pod_name) == 0

    def _docker(self, *words: str) -> int:
        return subprocess.run(["docker", *words], env=dict(self._environ), capture_output=True, timeout=DOCKER_S, check=False).returncode
