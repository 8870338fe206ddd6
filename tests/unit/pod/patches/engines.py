"""An installed engine in a folder: metadata and a package of some files."""

from __future__ import annotations

from pathlib import Path

from pod.patches.installed import Installed

FILES = {"vllm/__init__.py": "", "vllm/models/loader.py": "LIMIT = 205\n", "vllm/envs.py": "A = 1\n"}


def engine(site: Path, release: str = "0.27.1", distribution: str = "vllm") -> Installed:
    """Install it and look at it."""
    for path, text in FILES.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{distribution.replace('-', '_')}-{release}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {release}\n")
    return Installed(distribution, site=site)


def content(site: Path) -> dict[str, str]:
    return {p.relative_to(site).as_posix(): p.read_text() for p in sorted(site.rglob("*.py"))}
