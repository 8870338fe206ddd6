"""The Dockerfile and its build context: `docker build build/<profile>` needs nothing else.

Layers go from what never changes to what changes with every edit: system packages, CUDA pieces, the engine in parts, extras,
the runtime, and last the bootstrap, the manifest and the labels of this one profile.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from compiler.artifact import Artifact
from compiler.plan.core import ImagePlan, Plan
from compiler.render.environment import rendered

UV_VERSION = "0.13.9"
"""uv that installs the lock: the release that the locks were installed with when this was written."""

CONTEXT = "image"
"""Folder of the bundle that holds the build context beside bootstrap.sh and manifest.json."""

ENGINE_PYTHON = "/opt/podwright/engine-python"
"""Program of the image, and of a pod, that runs the interpreter which has the engine. `images/common/find-engine.sh` writes it."""

LOCK_FOLDER = "specs/engines/"
"""Where `ImagePlan.lock_file` starts from; `files` holds the lock under this path."""

_LOCK_PARTS: tuple[tuple[str, str], ...] = (
    ("1-cuda", r"nvidia-(?!cutlass|ml-py|cudnn-frontend)"),
    ("2-torch", r"(torch|torchvision|torchaudio|torchcodec|triton|pytorch-triton)$"),
    ("3-kernels", r"(flashinfer|nvidia-cutlass|humming-kernels|tilelang|xgrammar|quack-kernels|cupy)"),
    ("4-dependencies", r"(?!vllm(-cpu)?$)"),
    ("5-engine", r""),
)
"""Parts of a lock, one layer each: a name belongs to the first part whose pattern it starts with. No layer holds everything, so a
pull fetches them side by side, and an engine patch release reuses the first ones."""

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*==")


def render_image(plan: Plan, files: Mapping[str, bytes]) -> list[Artifact]:
    """Dockerfile, .dockerignore and the build context.

    `files` holds the static files by path below `images/`, and the engine's lock under `specs/engines/`. Raises KeyError
    when the plan names a lock that `files` lacks.
    """
    parts = lock_parts(plan.image, files)
    context = [Artifact(f"{CONTEXT}/{path}", content, 0o755 if path.endswith(".sh") else 0o644) for path, content in context_files(plan, files)]
    locks = [Artifact(f"{CONTEXT}/lock/{name}.txt", content) for name, content in parts.items()]
    ignore = Artifact(".dockerignore", f"*\n!{CONTEXT}\n!bootstrap.sh\n!manifest.json\n**/__pycache__\n".encode())
    return [Artifact("Dockerfile", _dockerfile(plan, list(parts))), ignore, *context, *locks]


def context_files(plan: Plan, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The static files that this recipe copies, sorted by path."""
    wanted = ("common/", "finish/", "runtime/pod/", f"{plan.image.recipe}/")
    for path in sorted(files):
        is_tool = path.startswith("bootstrap/") and path.endswith(".py")
        if "__pycache__" not in path and (path.startswith(wanted) or is_tool):
            yield path, files[path]


def lock_parts(image: ImagePlan, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The engine's lock cut into layers, by part name; empty where the recipe installs no engine or has no lock."""
    if image.lock_file is None or image.recipe == "vllm-openai":
        return {}
    return dict(_cut_lock(files[LOCK_FOLDER + image.lock_file]))


@functools.cache
def _cut_lock(content: bytes) -> tuple[tuple[str, bytes], ...]:
    """The parts of one lock; profiles of one release share it, and cutting it takes longer than the rest of a Dockerfile."""
    text = content.decode("utf-8")
    parts: dict[str, list[str]] = {name: [] for name, _ in _LOCK_PARTS}
    options = [line for line in text.splitlines() if line.startswith("-")]
    current: list[str] = []
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            current = parts[_part(entry[1])]
        if line.strip() and not line.startswith(("#", "-")):
            current.append(line)
    return tuple((name, ("\n".join(options + lines) + "\n").encode()) for name, lines in parts.items() if lines)


def engine_requirement(image: ImagePlan) -> str:
    """The engine as a requirement, pinned."""
    return f"{image.distribution}=={image.release}"


def _extras(requirements: list[str], whys: list[str]) -> list[dict[str, object]]:
    """Each extra with the others behind it: those are wanted too, so it is not held to the versions that they replace."""
    others = [[r for r in requirements if r != requirement] for requirement in requirements]
    return [{"why": why, "requirements": [own, *rest]} for own, rest, why in zip(requirements, others, whys, strict=True)]


def _part(name: str) -> str:
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return next(part for part, pattern in _LOCK_PARTS if re.match(pattern, plain))


def _dockerfile(plan: Plan, parts: list[str]) -> bytes:
    image = plan.image
    if re.search(r"\s", image.base_reference):
        raise ValueError(f"not an image reference: {image.base_reference!r}")
    packages = [p.requirement for p in image.packages]
    return rendered(
        f"Dockerfile-{image.recipe}.j2",
        image=image, context=CONTEXT, uv_version=UV_VERSION, parts=parts, requirement=engine_requirement(image),
        python=ENGINE_PYTHON, extras=_extras(packages, [p.why for p in image.packages]), verified=[engine_requirement(image) if image.exact_release else image.distribution, *packages],
        build_apt=[p.name for p in image.build_apt], cuda_apt=[p.name for p in image.cuda_apt],
        generated_model=plan.engine.argv[2] if plan.model.generated else "",
        labels=image.labels, entrypoint=[], command=["/opt/podwright/bootstrap.sh"],
    )  # fmt: skip
