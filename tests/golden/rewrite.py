"""Golden bundles: what every shipped profile compiles to, kept beside the tests so that a review reads the difference.

`python -m tests.golden.rewrite` (`make golden`) writes them anew. The build context below `image/` is the same for many
profiles and is kept as sha256 only, in `image.sha256`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from compiler.artifact import Bundle
from compiler.load import SpecStore, data_root, image_files, load_specset
from compiler.pipeline import compiled

GOLDEN = Path(__file__).resolve().parent
CONTEXT = "image/"
RUNTIME = "runtime/pod/"
SUMS = "image.sha256"


def profiles() -> list[str]:
    """Names of all shipped profiles."""
    return SpecStore([data_root() / "specs"]).names("profile")


def bundle(name: str) -> Bundle:
    """The bundle of a shipped profile. Raises AssertionError when it is refused."""
    specs, problems = load_specset(SpecStore([data_root() / "specs"]), name)
    assert specs is not None, problems
    result = compiled(specs, static_files())
    assert result.bundle is not None, [d.what for d in result.diagnostics if d.is_error]
    return result.bundle


def static_files() -> dict[str, bytes]:
    """The static files with a stand-in for the runtime: its code changes often, has its own tests, and would drown every other difference."""
    files = {path: content for path, content in image_files(data_root()).items() if not path.startswith(RUNTIME)}
    return files | {f"{RUNTIME}__init__.py": b"# stand-in for the runtime\n"}


def golden_files(of: Bundle) -> dict[str, bytes]:
    """What is kept of a bundle, by file name. Modes other than 0644 stand in the list of sums, too."""
    kept = {a.path: a.content for a in of.artifacts if not a.path.startswith(CONTEXT)}
    sums = [f"{a.sha256} {a.mode:o} {a.path}\n" for a in of.artifacts if a.path.startswith(CONTEXT)]
    modes = [f"{'-' * 64} {a.mode:o} {a.path}\n" for a in of.artifacts if not a.path.startswith(CONTEXT)]
    return kept | {SUMS: "".join(modes + sums).encode()}


def main() -> int:
    """Write the golden bundles of all profiles, and remove those of profiles that are gone."""
    names = profiles()
    for stale in [f for f in GOLDEN.iterdir() if f.is_dir() and f.name != "__pycache__" and f.name not in names]:
        shutil.rmtree(stale)
    for name in names:
        files = golden_files(bundle(name))
        folder = GOLDEN / name
        for file in [f for f in folder.rglob("*") if f.is_file() and f.relative_to(folder).as_posix() not in files]:
            file.unlink()
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    print(f"{len(names)} golden bundles in {GOLDEN}; read their difference before you commit them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
