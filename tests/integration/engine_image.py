"""An image with a real engine release, made once from its environment on this machine: Debian, a compiler, that Python and the release."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.docker_stand_ins import BASE, docker, made_image
from tests.integration.parts import EngineParts

# What the interpreter and the release's compiled modules link against.
_APT = "gcc libc6-dev binutils libffi8 libssl3 libsqlite3-0 libbz2-1.0 liblzma5 libreadline8 libncursesw6 zlib1g libnuma1 libgomp1"


def compiler_image() -> str:
    """Debian with a compiler and the libraries of the interpreter; its name."""
    packages = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {_APT} >/dev/null && rm -rf /var/lib/apt/lists/*"
    return made_image("podwright-test/compiler:1", f"FROM {BASE}\nRUN {packages}\n")


def engine_image(parts: EngineParts) -> str:
    """The image's name. The first time it copies 8 GB, which took six minutes on two busy cores."""
    tag = f"podwright-test/vllm:{parts.release}"
    if subprocess.run(["docker", "image", "inspect", tag], capture_output=True, timeout=60, check=False).returncode == 0:
        return tag
    home = Path((parts.folder / "bin" / "python").resolve()).parents[1]
    name = f"podwright-test-filling-{parts.release}"
    docker("rm", "-f", name, check=False)
    copies = " && ".join(f"mkdir -p {path} && cp -a /from{n}/. {path}/" for n, path in enumerate((home, parts.folder)))
    try:
        docker(
            "run", "--name", name, "--network=none", "-v", f"{home}:/from0:ro", "-v", f"{parts.folder}:/from1:ro", compiler_image(),
            "bash", "-c", f"{copies} && rm -rf {parts.folder}/no-device",
        )  # fmt: skip
        docker("commit", "-c", f"ENV PATH={parts.folder}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "-c", 'CMD ["vllm", "serve"]', name, tag)
    finally:
        docker("rm", "-f", name, check=False)
    return tag
