"""How a pod starts: the fixed part of its command, what it overrides, and the phases of its bootstrap."""

from __future__ import annotations

from compiler.plan.core import DesktopPlan, EnginePlan, ImagePlan

POD_HOME = "/opt/podwright"
GENERATED_MODEL = f"{POD_HOME}/model"
"""Where the vllm-cpu recipe bakes its generated model: `vllm serve` of such a profile names this folder."""

_PHASES = (
    "overrides", "ssh", "disk", "driver", "ports", "gpu", "payload", "install", "toolkit", "torch",
    "extras", "desktop", "runtime",
)  # fmt: skip
"""Every phase in the only order that works: nothing is looked at before what it depends on is settled."""


def resolve_start_command(image: ImagePlan) -> tuple[str, ...]:
    """The fixed part of the pod's command. A prebaked image holds the script; otherwise the request carries it.

    `compiler.render.start_command` appends what depends on rendered text: the manifest's sha256, or the script itself.
    """
    return (f"{POD_HOME}/bootstrap.sh",) if image.prebaked else ("bash", "-c")


def resolve_entrypoint(image: ImagePlan) -> tuple[str, ...]:
    """What the pod request puts in ENTRYPOINT's place; empty leaves the image's own.

    A start command replaces CMD only. `env` runs its arguments as they are, so the same command works with it and without.
    """
    return ("/usr/bin/env",) if image.public_entrypoint and not image.prebaked else ()


def bootstrap_phases(image: ImagePlan, engine: EnginePlan, desktop: DesktopPlan | None) -> tuple[str, ...]:
    """The phases that this profile needs, in order."""
    needs_gpu = engine.cuda is not None
    wanted = {
        "overrides": True, "disk": True, "ports": True, "runtime": True,
        "ssh": image.ssh,
        "driver": needs_gpu, "gpu": needs_gpu, "toolkit": needs_gpu, "torch": needs_gpu,
        "payload": not image.prebaked, "install": not image.prebaked,
        "extras": bool(image.packages),
        "desktop": desktop is not None,
    }  # fmt: skip
    return tuple(phase for phase in _PHASES if wanted[phase])
