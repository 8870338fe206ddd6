"""A run on this machine itself: the emitted bootstrap below a private root, without rights, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from compiler.deploy.local import children
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Ports
from compiler.deploy.local.run import Seen, asked, bootstrap_failure
from compiler.plan import Plan

LOOPBACK = "127.0.0.1"
# What a program needs of somebody's shell: where programs are, the language, ways through proxies, and the Hub.
_KEPT = (
    "PATH", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE",
)  # fmt: skip


class OwnRun:
    """The bundle's bootstrap as a process of ours."""

    # The runtime bounds its own end by 75 s; then whatever is left of it is killed within 15.
    limit_s = 100.0

    def __init__(self, plan: Plan, places: Places, ports: Ports, key: str, environ: Mapping[str, str], running: int) -> None:
        self._places, self._ports, self._running = places, ports, running
        self.log = places.log
        self.environ = pod_environment(plan, places, ports, key, environ)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the bootstrap, which becomes the guardian. It holds the lock of this profile's local run, too, as long as it lives."""
        script = self._places.root / "opt" / "podwright" / "bootstrap.sh"
        with self.log.open("wb") as stream:
            return subprocess.Popen(["/usr/bin/env", "bash", str(script)], env=self.environ, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
                                    pass_fds=(self._running,), preexec_fn=children.dying_with_us(signal.SIGTERM))  # fmt: skip

    def look(self) -> Seen:
        """The supervisor's own status; the bootstrap's log before there is one."""
        code, status = asked(self._ports.status, "/status")
        if code != 200:
            return Seen("starting", failure=bootstrap_failure(self.log.read_text("utf-8", "replace")))
        fatal = status.get("fatal")
        has_end = bool(fatal) and fatal.get("retry_at") is None and status["state"] == "fatal"
        serves = status["state"] == "serving" and asked(self._ports.endpoint, "/ready")[0] == 200
        return Seen(status["state"], status.get("detail", ""), serves, (fatal["cause"], fatal.get("fix", "")) if has_end else None,
                    {"phases": status.get("phases", {}), "manifest": status.get("engine", {}).get("manifest")})  # fmt: skip

    def left(self) -> list[str]:
        """Processes that carry this runtime's mark."""
        return [f"process {pid}" for pid in sorted(children.left_of(self._places.state))]

    def remove(self) -> None:
        """KILL to each of them."""
        children.kill(children.left_of(self._places.state))


def pod_environment(plan: Plan, places: Places, ports: Ports, key: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What a provider would set in the pod, with every folder and port where it is here. `VL_*` levers act as in a pod."""
    env = {name: value for name, value in environ.items() if name in _KEPT or name.startswith("VL_")}
    env |= {variable.name: variable.value for variable in plan.pod_env}
    env |= {secret.env: environ[secret.env] for secret in plan.secrets if environ.get(secret.env)}
    env |= {
        "HOME": str(places.root / "root"), "HF_HOME": environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface"), "VLLM_CACHE_ROOT": str(places.home / "cache" / "vllm"),
        "PODWRIGHT_ROOT": str(places.root), "PODWRIGHT_LISTEN": LOOPBACK, "PODWRIGHT_STATE_DIR": str(places.state), "PODWRIGHT_STATUS_PORT": str(ports.status),
    }  # fmt: skip
    if plan.bridge.api_key_env:
        env[plan.bridge.api_key_env] = key
    return env | moved_ports(plan, ports)


def moved_ports(plan: Plan, ports: Ports) -> dict[str, str]:
    """The levers of ports that are not where the plan has them."""
    pairs = (("VL_PROXY_PORT", plan.network.endpoint_port, ports.endpoint), ("VL_PORT", plan.network.engine_port, ports.engine))
    return {name: str(here) for name, planned, here in pairs if planned != here}


def running_descriptor(places: Places) -> int | None:
    """The lock of this profile's local run, held by the descriptor; None where another run has it. Raises OSError."""
    import fcntl

    places.home.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
