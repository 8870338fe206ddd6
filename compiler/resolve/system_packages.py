"""Debian and Ubuntu packages that a recipe needs besides CUDA's."""

from __future__ import annotations

from compiler.plan.core import AptPackage, Recipe

_EVERY = (
    AptPackage("ca-certificates", "certificates of the Hub and of package indexes"),
    AptPackage("curl", "fetches what the bootstrap verifies"),
)
_ENVIRONMENT = (
    AptPackage("python3", "runs the installers"),
    AptPackage("python3-venv", "makes the environment that uv lives in"),
)
_COMPILER = (
    AptPackage("gcc", "Triton compiles its launchers at start"),
    AptPackage("g++", "host compiler of kernels that are built at start"),
)
_NUMA = AptPackage("numactl", "binds workers to NUMA nodes")
_CPU = AptPackage("libnuma1", "the CPU engine asks which cores belong together")


def build_apt(recipe: Recipe, python: str, *, binds_numa: bool = False) -> tuple[AptPackage, ...]:
    """The packages of one recipe, in order of installation; `python` is the engine's, as `3.12`."""
    headers = AptPackage(f"libpython{python}-dev", "Python.h, which Triton's launchers include")
    own = {
        "vllm-venv": (*_EVERY, *_ENVIRONMENT, *_COMPILER, headers),
        "vllm-openai": _EVERY,
        "vllm-cpu": (*_EVERY, *_ENVIRONMENT, *_COMPILER, _CPU),
    }[recipe]
    return (*own, _NUMA) if binds_numa else own
