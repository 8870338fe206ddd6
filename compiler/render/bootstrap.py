"""`bootstrap.sh`: the profile's facts as data on top, then the phases that it needs, then the order in which they run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from compiler.artifact import Artifact
from compiler.plan.core import ModelPlan, Plan
from compiler.render.dockerfile import UV_VERSION, engine_requirement
from compiler.render.environment import rendered

_OPTIONAL_PACKAGES = ("fastokens", "humming-kernels")
"""Packages whose absence costs speed and not the service, unless the engine's command line names them."""

_SHARED_FILES = {"gpu": "gpu", "torch": "gpu"}
"""Phases that live in one file."""


_EVERYWHERE = ("PROFILE", "ENGINE_REQUIREMENT", "HF_HOME_DEFAULT")
"""Facts that the script's frame uses; the others are written only where a phase reads them."""


def render_bootstrap(plan: Plan, files: Mapping[str, bytes], payload: Artifact | None = None) -> Artifact:
    """The script that a pod runs first. `files` holds `bootstrap/*.sh`; `payload` is what an image that is not prebaked fetches.

    Raises KeyError when `files` lacks the part of a phase.
    """
    names = dict.fromkeys(["lib", *(_SHARED_FILES.get(phase, phase) for phase in plan.bootstrap_phases)])
    if "install" in plan.bootstrap_phases and "driver" not in plan.bootstrap_phases:
        names["driver"] = None
    if {"gpu", "torch"} & set(plan.bootstrap_phases):
        names["driver"] = None
    parts = [_body(files[f"bootstrap/{name}.sh"]) for name in names]
    data = {name: value for name, value in _data(plan, payload).items() if name in _EVERYWHERE or _uses(parts, name)}
    identity = hashlib.sha256(json.dumps([data, parts, plan.bootstrap_phases], sort_keys=True).encode()).hexdigest()[:12]
    content = rendered("bootstrap.sh.j2", plan=plan, data=data, parts=parts, phases=plan.bootstrap_phases, identity=identity)
    return Artifact("bootstrap.sh", content, 0o755)


def _uses(parts: list[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", part) for part in parts)


def _body(part: bytes) -> str:
    """A part without its directive for shellcheck, which only the head of a whole script may have."""
    return "\n".join(line for line in part.decode("utf-8").splitlines() if not line.startswith("# shellcheck shell=")).strip("\n")


def _data(plan: Plan, payload: Artifact | None) -> dict[str, str | list[str]]:
    """The facts by shell name: text, or a list that becomes an array."""
    image, hardware, engine = plan.image, plan.hardware, plan.engine
    env = {v.name: v.value for v in engine.env}
    return {
        "PROFILE": plan.profile,
        "PREBAKED": _flag(image.prebaked),
        "UV_VERSION": UV_VERSION,
        "ENGINE_REQUIREMENT": engine_requirement(image),
        "ENGINE_CUDA": engine.cuda or "",
        "MIN_DRIVER": str(hardware.min_driver),
        "COMPAT_DIR": image.compat_dir or "",
        "CUDA_TOOLKIT": image.cuda_home or "",
        "GPU_COUNT": str(hardware.count),
        "GPU_NAME": hardware.name,
        "SAMPLER": "on" if env.get("VLLM_USE_FLASHINFER_SAMPLER") == "1" else "off",
        "FASTOKENS": _flag(env.get("VLLM_USE_FASTOKENS") == "1"),
        "ENDPOINT_PORT": str(plan.network.endpoint_port),
        "ENGINE_PORT": str(plan.network.engine_port),
        "FOLLOWS": _flag(plan.publish.repo is not None),
        "HF_HOME_DEFAULT": plan.storage.hf_home,
        "DOWNLOAD_GB": str(-(-_download_bytes(plan) // 10**9)),
        "NEEDED_GB": str(round(plan.storage.needed_disk_gb)),
        "DISK_GB": str(plan.storage.container_disk_gb),
        "DESKTOP_PASSWORD_ENV": plan.desktop.password_env if plan.desktop else "",
        **_lists(plan),
        **(_install_data(plan, payload) if not image.prebaked else {}),
    }


def _lists(plan: Plan) -> dict[str, str | list[str]]:
    return {
        "OVERRIDES": [f"{o.name}|{o.effect}|{o.pattern}" for o in plan.overrides],
        "PORTS": [str(port) for port in plan.network.listening],
        "PACKAGES": [f"{_flag(_is_required(p.requirement, plan.engine.argv))}|{p.requirement}" for p in plan.image.packages],
    }


def _install_data(plan: Plan, payload: Artifact | None) -> dict[str, str | list[str]]:
    if payload is None:
        raise ValueError(f"{plan.profile} is not prebaked, so its bootstrap needs the payload")
    image = plan.image
    return {
        "PYTHON_VERSION": image.python,
        "VENV": image.venv or "",
        "BUILD_APT": [p.name for p in image.build_apt],
        "CUDA_APT": [p.name for p in image.cuda_apt],
        "PAYLOAD_SHA256": payload.sha256,
        "PAYLOAD_REPO": plan.publish.repo or "",
    }


def _flag(value: bool) -> str:
    return "1" if value else "0"


def _is_required(requirement: str, argv: tuple[str, ...]) -> bool:
    """Whether the engine cannot serve without it. humming is optional until the command line asks for its kernels."""
    if not requirement.startswith(_OPTIONAL_PACKAGES):
        return True
    return requirement.startswith("humming") and "humming" in argv


def _models(plan: Plan) -> list[ModelPlan]:
    """The served model, and the others of its swap set, each once."""
    models = [plan.model, *(m.model for m in (plan.swap.members if plan.swap else ()))]
    return list({m.slug: m for m in models}.values())


def _download_bytes(plan: Plan) -> int:
    return sum(m.disk_bytes for m in _models(plan) if m.fetched)
