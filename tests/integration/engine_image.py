"""An image with a real engine release, made once from its environment on this machine: Debian, a compiler, that Python and the release.

python -m tests.integration.engine_image [RELEASE]     makes it: 8 GB are copied, in some minutes
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.integration.docker_stand_ins import BASE, docker, made_image
from tests.integration.parts import EngineParts, engine_absent, engine_parts

# What the interpreter and the release's compiled modules link against.
_APT = "gcc libc6-dev binutils libffi8 libssl3 libsqlite3-0 libbz2-1.0 liblzma5 libreadline8 libncursesw6 zlib1g libnuma1 libgomp1"


def compiler_image() -> str:
    """Debian with a compiler and the libraries of the interpreter; its name."""
    packages = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {_APT} >/dev/null && rm -rf /var/lib/apt/lists/*"
    return made_image("podwright-test/compiler:1", f"FROM {BASE}\nRUN {packages}\n")


def tag_of(release: str) -> str:
    """The image's name."""
    return f"podwright-test/vllm:{release}"


def engine_image(release: str) -> str | None:
    """The image's name, or None where it was not made."""
    asked = subprocess.run(["docker", "image", "inspect", tag_of(release)], capture_output=True, timeout=60, check=False)
    return tag_of(release) if asked.returncode == 0 else None


def made_engine_image(parts: EngineParts) -> str:
    """Make it. Six minutes on two busy cores."""
    home = Path((parts.folder / "bin" / "python").resolve()).parents[1]
    name = f"podwright-test-filling-{parts.release}"
    docker("rm", "-f", name, check=False)
    copies = " && ".join(f"mkdir -p {path} && cp -a /from{n}/. {path}/" for n, path in enumerate((home, parts.folder)))
    search = f"ENV PATH={parts.folder}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        docker(
            "run", "--name", name, "--network=none", "-v", f"{home}:/from0:ro", "-v", f"{parts.folder}:/from1:ro", compiler_image(),
            "bash", "-c", f"{copies} && rm -rf {parts.folder}/no-device",
        )  # fmt: skip
        docker("commit", "-c", search, "-c", 'CMD ["vllm", "serve"]', name, tag_of(parts.release))
    finally:
        docker("rm", "-f", name, check=False)
    return tag_of(parts.release)


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "0.27.1"
    found = engine_parts(wanted)
    print(made_engine_image(found) if found is not None else engine_absent(wanted))
