"""Plan -> the question that its engine is asked: command line, environment and card."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from compiler.plan.core import EnginePlan, HardwarePlan, ModelPlan, Plan
from compiler.plan.memory import MemoryPlan
from compiler.schema.hardware import HardwareSpec
from compiler.schema.model import ModelSpec
from compiler.schema.specset import SpecSet
from compiler.units import GIB

PLUGINS = ("--reasoning-parser-plugin", "--tool-parser-plugin")
# Files and downloads of the pod, and what reads the checkpoint's tokenizer: they say nothing about the card, and are not here.
OF_THE_POD = frozenset({
    "--chat-template", "--tokenizer", "--revision", "--tokenizer-revision", "--code-revision", "--download-dir", "--hf-config-path",
    "--api-key", "--ssl-keyfile", "--ssl-certfile", "--lora-modules", *PLUGINS,
})  # fmt: skip
# What a plug-in of the pod would register.
_PLUGGED_IN = frozenset({"--reasoning-parser", "--tool-call-parser"})
_SWITCHES = frozenset({"--enable-auto-tool-choice"})
SPECULATION = "--speculative-config"
CONNECTOR = "--kv-transfer-config"
# Its class opens a package that only the pod has. Without its role the engine refuses before that.
_OUTSIDE = "LMCacheMPConnector"
# Of the allocator's settings the engine's configuration refuses some.
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_NOT_PASSED = ("_ROOT", "_PATH", "_DIR", "_KEY", "_FOLDER")


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One engine to ask about: a profile's, or one member of a swap set."""

    name: str
    spec: ModelSpec
    model: ModelPlan
    engine: EnginePlan
    memory: MemoryPlan


def subjects(plan: Plan, specs: SpecSet) -> list[Subject]:
    """All engines of a plan: its own, and those that it swaps to."""
    found = [Subject(plan.profile, specs.model, plan.model, plan.engine, plan.memory)]
    models = {member.name: member.model for member in specs.swap}
    for m in plan.swap.members if plan.swap else ():
        if m.profile != plan.profile:
            found.append(Subject(m.profile, models[m.profile], m.model, m.engine, m.memory))
    return found


def card_facts(plan: HardwarePlan, spec: HardwareSpec) -> dict[str, Any]:
    """What the stand-in answers for: the card as the hardware spec has it."""
    return {
        "name": plan.name, "capability": plan.compute_capability, "bytes": spec.gpu.cuda_total or plan.vram_mib << 20, "count": plan.count,
        "nvlink": spec.interconnect.kind == "nvlink",
    }  # fmt: skip


def asked_flags(argv: tuple[str, ...], draft: Path | None) -> list[str]:
    """A command line after its model, without what only the pod has; a draft checkpoint becomes the given folder."""
    words, kept = list(argv[3:] if argv[:2] == ("vllm", "serve") else argv[1:]), []
    plugged = any(word.partition("=")[0] in PLUGINS for word in words)
    place = 0
    while place < len(words):
        word = words[place]
        name, has_value = word.partition("=")[0], "=" in word
        place += 1
        if plugged and name in _SWITCHES:
            continue
        if name in OF_THE_POD or (plugged and name in _PLUGGED_IN) or (name == CONNECTOR and _is_outside(words[place - 1 : place + 1])):
            place += not has_value
            continue
        kept.append(word)
        if name == SPECULATION and not has_value and place < len(words) and draft is not None:
            kept.append(json.dumps({**json.loads(words[place]), "model": str(draft)}))
            place += 1
    return kept


def _is_outside(option: list[str]) -> bool:
    text = " ".join(option)
    return _OUTSIDE in text and "kv_role" in text


def draft_repo(argv: tuple[str, ...]) -> str | None:
    """The checkpoint that speculation names; None without one."""
    for place, word in enumerate(argv[:-1]):
        if word == SPECULATION:
            model = json.loads(argv[place + 1]).get("model")
            return str(model) if model else None
    return None


def asked_env(engine: EnginePlan) -> dict[str, str]:
    """The engine's own variables that change decisions, and the allocator's; its folders and keys are the pod's."""
    own = (v for v in engine.env if v.name.startswith("VLLM_") and not v.name.endswith(_NOT_PASSED))
    return {v.name: v.value for v in (*own, *(v for v in engine.env if v.name in _ALLOCATOR))}


def job_of(subject: Subject, model: Path, draft: Path | None, build: bool) -> dict[str, Any]:
    """The question about one engine, as the judge reads it. `model` is a folder with config.json."""
    return {
        "id": subject.name, "model": str(model), "argv": asked_flags(subject.engine.argv, draft), "env": asked_env(subject.engine), "build": build,
        "kv_bytes": max(0, int(subject.memory.kv_gib.mid * GIB)),
    }  # fmt: skip
