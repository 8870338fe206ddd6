"""An environment variable has a value that the engine cannot use.

## What it flags
`VLLM_PORT` with an address in it, as Kubernetes sets for a service that is called `vllm`; `CUDA_VISIBLE_DEVICES` that shows fewer GPUs
than the parallel sizes ask for; and a variable that takes one of a few words, with another.

## Why it hurts
The engine reads the port as a number and raises; with too few visible GPUs it finds a world larger than the node.

## Example
    env: {CUDA_VISIBLE_DEVICES: "0"}
    settings: {tensor_parallel_size: 2}

## Use instead
    settings: {tensor_parallel_size: 2}      # leave the variable out: the container shows its GPUs

## When to ignore
Never: the engine refuses.

## Source
vllm#34199 and `envs.get_vllm_port` and `env_with_choices` of 0.26.0, 0.27.1 and 0.33.0; the check of the world size in their executors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place, gpus_used, number, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG025", name="variable-value-refused", severity=Severity.ERROR, refusal=True)

# Where the releases differ all of their words are here.
CHOICES = {
    "VLLM_COMPILE_CACHE_SAVE_FORMAT": ("binary", "unpacked"),
    "VLLM_DEEP_GEMM_WARMUP": ("skip", "full", "relax"),
    "VLLM_FLASHINFER_ALLREDUCE_BACKEND": ("auto", "trtllm", "mnnvl"),
    "VLLM_KV_CACHE_LAYOUT": ("NHD", "HND", "LBNHC", "LBHNC", "LHBNC", "BLHNC", "BLNHC", "BHLNC"),
    "VLLM_MARLIN_INPUT_DTYPE": ("int8", "fp8"),
    "VLLM_SSM_CONV_STATE_LAYOUT": ("SD", "DS"),
    "VLLM_WORKER_MULTIPROC_METHOD": ("spawn", "fork"),
}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the port, and one for GPUs that are hidden."""
    port = environment(subject, "VLLM_PORT")
    if port is not None and re.match(r"\w+://", port):
        what = f"VLLM_PORT is the address {port}"
        fix = "name the Kubernetes service otherwise than vllm, or set VLLM_PORT to a number"
        yield Hit(environment_place(subject, "VLLM_PORT"), what, "the engine reads a number there and ends", fix)
    for name, choices in CHOICES.items():
        if (value := environment(subject, name)) and value not in choices:
            what, why = f"{name} is {value}", "the engine takes no other word than its own, and ends"
            yield Hit(environment_place(subject, name), what, why, f"take {' or '.join(choices)}, or leave it out")
    visible = environment(subject, "CUDA_VISIBLE_DEVICES")
    if visible and re.fullmatch(r"\d+(,\d+)*", visible.replace(" ", "")) and on_gpu(subject) and not _spans_nodes(subject):
        shown, used = len(visible.split(",")), gpus_used(subject)
        if shown < used:
            what, why = f"CUDA_VISIBLE_DEVICES shows {shown} of the {used} GPUs that the parallel sizes ask for", "the engine ends at its start"
            yield Hit(environment_place(subject, "CUDA_VISIBLE_DEVICES"), what, why, "show them all, or lower the parallel sizes")


def _spans_nodes(subject: Subject) -> bool:
    """True where more nodes than this one hold GPUs, so that its own may be fewer than all."""
    nodes, local = number(subject, "nnodes") or 1, number(subject, "data_parallel_size_local")
    return nodes > 1 or local is not None or subject.setting("distributed_executor_backend") == "ray"
