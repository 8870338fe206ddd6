"""What the runtime's benchmark needs: a bundle laid out as `podwright local` does, a publisher, and processes as Linux counts them."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import signal
import tarfile
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pod.contract import Follow, Manifest
from pod.publication import Publication, payload_path, sign

from compiler.artifact import written
from compiler.deploy.local.environment import engine_environment
from compiler.deploy.local.own import pod_environment
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Reservations, chosen_ports
from compiler.deploy.local.tree import lay_out
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from tests.bench.process import MIB
from tests.hub_server import Hub
from tests.support import specset
from tests.unit.pod.living import RUNTIME, free_port, toy_manifest

PRIVATE = b"\x02" * 32
PUBLIC = Ed25519PrivateKey.from_private_bytes(PRIVATE).public_key().public_bytes_raw().hex()
REPO = "me/pods"


@dataclasses.dataclass(frozen=True)
class LocalEngine:
    """The same engine in two ways: its own command line, and the bundle's bootstrap."""

    argv: list[str]
    bootstrap: list[str]
    port: int
    pod_env: dict[str, str]
    engine_env: dict[str, str]

    def env_of(self, argv: list[str]) -> dict[str, str]:
        """The environment that belongs to one of the two."""
        return self.pod_env if argv is self.bootstrap else self.engine_env


def engine_of_local(folder: Path) -> LocalEngine:
    """`tiny-cpu` laid out below `folder`, in the environment that `podwright local` keeps in its cache."""
    result = compiled(specset("tiny-cpu"), image_files(data_root()))
    assert result.bundle is not None
    places = Places.of("tiny-cpu", folder, os.environ)
    written(result.bundle, places.bundle)
    python = engine_environment(result.plan, places.bundle, places.cache, None, os.environ, print)
    lay_out(result.plan, places, python)
    ports = chosen_ports(result.plan, None, Reservations(places.cache))
    pod_env = pod_environment(result.plan, places, ports, "k3y-for-benchmarks", os.environ)
    manifest = Manifest.from_bytes((places.bundle / "manifest.json").read_bytes())
    launch = manifest.engine.launch
    words = [str(places.root) + word if word.startswith("/opt/podwright/") else word for word in launch.argv]
    words[words.index("--port") + 1] = str(ports.engine)
    engine_env = {name: value for name, value in pod_env.items() if not name.startswith(("PODWRIGHT_", "VL_"))} | launch.env
    engine_env |= {"PATH": f"{python.parent}{os.pathsep}{pod_env['PATH']}"}
    return LocalEngine([str(python.parent / words[0]), *words[1:]], ["bash", str(places.root / "opt/podwright/bootstrap.sh")], ports.engine, pod_env, engine_env)


def following(follow: Follow) -> Manifest:
    """The toy's manifest, which follows."""
    manifest = toy_manifest(port=free_port(), endpoint=free_port())
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, follow=follow))


class Published:
    """Who publishes on a Hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._sequence = hub, 0

    def commit(self, manifest: Manifest, runtime: bytes | None = None) -> float:
        """Publish, and the moment of it."""
        self._sequence += 1
        files = {"p/manifest.json": json.dumps(manifest.to_json()).encode()}
        digest = hashlib.sha256(runtime).hexdigest() if runtime else None
        if runtime and digest:
            files[payload_path(digest)] = runtime
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        signed = sign(Publication(1, "p", self._sequence, time.time(), "now", hashes, digest, ""), PRIVATE)
        self._hub.commit(REPO, {**files, "p/publication.json": signed})
        return time.monotonic()


def payload() -> bytes:
    """This checkout's runtime as it is published: another archive than the running one, with the same code."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in sorted((RUNTIME / "pod").rglob("*.*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.add(file, f"runtime/{file.relative_to(RUNTIME)}")
    return bz2.compress(buffer.getvalue())


def cpu_s(pid: int) -> float:
    """Seconds of CPU of a process and of those of its children that it has waited for, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def proportional_mib(pid: int) -> float:
    """Resident memory with each shared page counted by its share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MIB
    raise ValueError("the kernel gives no shares")


def without_cover(leader: int) -> None:
    """End what a program left in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
