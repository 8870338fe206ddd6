"""What a pod on a public base image lacks, as one archive that is the same on every machine."""

from __future__ import annotations

import base64
import bz2
import io
import tarfile
from collections.abc import Mapping

from compiler.artifact import Artifact
from compiler.plan.core import Plan
from compiler.render.dockerfile import context_files, lock_parts

EMBEDDED_LIMIT = 56 * 1024
"""Base64 characters that a start command may carry: RunPod refuses a request above 102,400 bytes, template included, and the
bootstrap, the environment and the rest need what is left."""


def render_payload(plan: Plan, files: Mapping[str, bytes], manifest: Artifact) -> Artifact | None:
    """`payload.tar.bz2` with runtime, installers, lock and manifest; None for a prebaked image, which has them.

    bzip2 and not gzip: there is one bzip2, while the bytes of gzip depend on which zlib a Python was built with.
    """
    if plan.image.prebaked:
        return None
    members = {path: (content, 0o755 if path.endswith(".sh") else 0o644) for path, content in context_files(plan, files)}
    members |= {f"lock/{name}.txt": (content, 0o644) for name, content in lock_parts(plan.image, files).items()}
    members["manifest.json"] = (manifest.content, 0o644)
    return Artifact("payload.tar.bz2", bz2.compress(_tar(members), 9))


def render_runtime(files: Mapping[str, bytes]) -> Artifact:
    """The pod's own program alone, for running pods to take over: it changes only with the program, never with a manifest."""
    members = {path: (content, 0o644) for path, content in files.items() if path.startswith("runtime/pod/") and "__pycache__" not in path}
    return Artifact("runtime.tar.bz2", bz2.compress(_tar(members), 9))


def embedded(payload: Artifact) -> str | None:
    """The archive as lines of base64 when a start command can carry it, else None: then the pod fetches it."""
    text = base64.encodebytes(payload.content).decode("ascii")
    return text if len(text) <= EMBEDDED_LIMIT else None


def _tar(members: Mapping[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(members):
            content, mode = members[path]
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, 0
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
