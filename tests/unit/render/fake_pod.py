"""A folder that looks like a pod to a bootstrap: fake nvidia-smi and engine Python, real Bash, real everything else."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from compiler.plan.core import Plan
from compiler.render.bootstrap import render_bootstrap
from tests.unit.render.plans import MANIFEST, REPOSITORY, static_files

PACKAGES = sysconfig.get_path("purelib")
"""Where `packaging` and huggingface_hub are; without `site`, Python starts in a third of the time."""

SMI = """#!/bin/bash
[ -n "$FAKE_DRIVER" ] || { echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9; }
case "$*" in
  *driver_version*) for i in $(seq "$FAKE_GPUS"); do echo "$FAKE_DRIVER"; done ;;
  *index,name*) for i in $(seq 0 $((FAKE_GPUS - 1))); do echo "$i, NVIDIA A40, 46068 MiB"; done ;;
  *) echo "| NVIDIA-SMI $FAKE_DRIVER   Driver Version: $FAKE_DRIVER   CUDA Version: $FAKE_CUDA     |" ;;
esac
"""
TORCH = """
import os
__version__ = "2.13.0+cu130"
class _Tensor:
    def sum(self): return self
    def item(self): return 2
class cuda:
    @staticmethod
    def is_available(): return os.environ["FAKE_TORCH_GPUS"] != "0"
    @staticmethod
    def device_count(): return int(os.environ["FAKE_TORCH_GPUS"])
    @staticmethod
    def get_device_name(index):
        if os.environ.get("FAKE_BROKEN_GPU") == str(index): raise RuntimeError("CUDA error: unspecified launch failure")
        return "NVIDIA A40"
def ones(n, device): return _Tensor()
"""
RUNTIME = """
import json, os, sys
with open(os.environ["FAKE_RESULT"], "w") as stream:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}, stream)
"""
DISK = """#!/bin/bash
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "overlay 900000000 1 $FAKE_FREE_KB 1% /"
"""


@dataclasses.dataclass
class Outcome:
    """What one run of a bootstrap left: its log, its fatal file, what the runtime was given, its exit code."""

    log: str
    fatal: str
    runtime: dict[str, object] | None
    code: int

    @property
    def env(self) -> dict[str, str]:
        """The environment that the runtime got."""
        assert self.runtime is not None, self.log
        env = self.runtime["env"]
        assert isinstance(env, dict)
        return env

    @property
    def host_env(self) -> dict[str, str]:
        """The facts about the host that win over the manifest."""
        facts: dict[str, str] = json.loads(self.env["PODWRIGHT_HOST_ENV"])
        return facts


class FakePod:
    """One pod's file system below `root`, ready to run one plan's bootstrap."""

    def __init__(self, root: Path, plan: Plan, *, nvcc: bool = True, curand: bool = True, compat: bool = True) -> None:
        self.root, self.plan = root, plan
        self.script = root / "opt/podwright/bootstrap.sh"
        self.bin = root / "fake-bin"
        self._write("opt/podwright/bootstrap.sh", render_bootstrap(plan, static_files()).text, 0o755)
        self._write("opt/podwright/manifest.json", MANIFEST.text)
        self._write("opt/podwright/bootstrap/torch_probe.py", (REPOSITORY / "images/bootstrap/torch_probe.py").read_text("utf-8"))
        self._write("opt/podwright/common/install-extra.sh", '#!/bin/bash\necho "no index: $2"; exit 1\n', 0o755)
        self._write("opt/podwright/common/install-uv.sh", "#!/bin/bash\n", 0o755)
        shutil.copytree(REPOSITORY / "images/runtime/pod", root / "opt/podwright/runtime/pod", ignore=shutil.ignore_patterns("__pycache__", "bridge"))
        self._write("opt/podwright/runtime/pod/__main__.py", RUNTIME)
        self._write("opt/site/torch.py", TORCH)
        self._write("opt/.image_prebaked", "recipe=vllm-venv engine=vllm==0.27.1 python=/opt/venv/bin/python\n")
        exported = f'export PATH="{root}/opt/venv/bin:$PATH" PYTHONPATH="{root}/opt/site:${{PYTHONPATH:-}}:{PACKAGES}"'
        self._write("opt/podwright/engine-python", f'#!/bin/bash\n{exported}\nexec {sys.executable} -S "$@"\n', 0o755)
        self._write("opt/venv/bin/vllm", "#!/bin/bash\n", 0o755)
        self._write("fake-bin/nvidia-smi", SMI, 0o755)
        self._write("fake-bin/df", DISK, 0o755)
        self.add_distribution("vllm", "0.27.1")
        if nvcc:
            self._write("usr/local/cuda-13.0/bin/nvcc", "#!/bin/bash\n", 0o755)
        if curand:
            self._write("usr/local/cuda-13.0/include/curand.h", "")
        if compat:
            self._write("usr/local/cuda-13.0/compat/libcuda.so.1", "")

    def add_distribution(self, name: str, version: str) -> None:
        """Install the metadata of a distribution, which is all that the bootstrap asks for."""
        self._write(f"opt/site/{name.replace('-', '_')}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def add_file(self, path: str, text: str, mode: int = 0o644) -> Path:
        """Another file of the pod."""
        self._write(path, text, mode)
        return self.root / path

    def run(self, *arguments: str, timeout: float = 90.0, **env: str) -> Outcome:
        """Run the bootstrap. When it holds the container open after a fatal error, end it as a provider would: with SIGTERM."""
        result = self.root / "result.json"
        result.unlink(missing_ok=True)
        fatal = self.root / "var/log/podwright/fatal.log"
        fatal.unlink(missing_ok=True)
        given = {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.root / "root"), "PODWRIGHT_ROOT": str(self.root), "FAKE_RESULT": str(result),
            "FAKE_DRIVER": "580.65.06", "FAKE_CUDA": "13.0", "FAKE_GPUS": "2", "FAKE_TORCH_GPUS": "2", "FAKE_FREE_KB": "400000000", **env,
        }  # fmt: skip
        (self.root / "root").mkdir(exist_ok=True)
        process = subprocess.Popen(
            ["bash", str(self.script), *arguments], env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        deadline = time.monotonic() + timeout
        while process.poll() is None and not fatal.exists():
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(f"the bootstrap neither ended nor gave up: {process.communicate()[0]}")
            time.sleep(0.02)
        if process.poll() is None:
            time.sleep(0.2)
            process.terminate()
        log, _ = process.communicate(timeout=10)
        runtime = json.loads(result.read_text("utf-8")) if result.exists() else None
        return Outcome(log, fatal.read_text("utf-8") if fatal.exists() else "", runtime, process.returncode)

    def _write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(mode)
