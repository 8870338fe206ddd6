"""A release's answer beside the plan: rows, each the same, different (a fault of the plan) or only told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Literal

from compiler.units import GIB
from compiler.verify.asking import Answer
from compiler.verify.question import Subject

Verdict = Literal["same", "differs", "told"]
# What the planner promises for numbers that have a closed form (docs/memory.md).
CLOSE = 0.01
# The engine loads more than parameters (scales, buffers), and specs state sizes that were measured on disk.
WEIGHTS_CLOSE = 0.02
# Settings of which the engine may silently make something else.
SETTINGS = (
    "enable_prefix_caching", "async_scheduling", "mamba_cache_mode", "enable_chunked_prefill", "enable_expert_parallel", "pipeline_parallel_size", "gpu_memory_utilization",
)  # fmt: skip
NOT_JUDGED = "Not judged: the quantization of this config is the spec's, not the checkpoint's."
KERNELS = ("marlin", "machete", "humming", "cutlass")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One thing that was compared. `planned` is None where the plan says nothing; `why` is there for a difference."""

    name: str
    planned: Any
    engine: Any
    verdict: Verdict
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """A flat mapping."""
        return dataclasses.asdict(self)


def compared(subject: Subject, answer: Answer, is_own_config: bool) -> list[Row]:
    """Every row for one engine that was accepted as far as the answer goes."""
    rows = [*_configuration(subject, answer.resolved)]
    stages = _stages(answer.ranks)
    rows += _layers(subject, stages, is_own_config) if len(stages) > 1 else ()
    keeps_states = answer.resolved.get("mamba_cache_mode") == "all"
    # What the fullest stage costs a token is what the plan counts with.
    growing = None if keeps_states else max((token_bytes(members[0]["kv_specs"]) for members in stages), default=0.0)
    for members in stages:
        for rank in members:
            label = _label(rank, len(stages), len(answer.ranks))
            slack = _end_of_pipeline(subject) if len(stages) > 1 else 0.0
            rows.append(_weights(subject, rank["parameter_bytes"] / GIB, is_own_config, label, slack))
            if rank is answer.ranks[0]:
                rows += _cache(subject, rank, growing)
            if rank is members[0]:
                rows += _backends(rank, label if len(stages) > 1 else "")
            if rank is answer.ranks[0]:
                rows += _kernel(subject, rank["backends"], is_own_config)
    if len(answer.ranks) > len(stages):
        unlike = [rank["rank"] for members in stages for rank in members if _layout(rank) != _layout(members[0])]
        rows.append(
            _row(
                "ranks unlike the first of their stage" if len(stages) > 1 else "ranks unlike rank 0",
                [],
                unlike,
                "The plan divides all ranks alike.",
            )
        )
    return rows


def _stages(ranks: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Ranks by their pipeline stage."""
    found: dict[int, list[dict[str, Any]]] = {}
    for rank in ranks:
        found.setdefault(rank.get("stage", 0), []).append(rank)
    return list(found.values())


def _label(rank: dict[str, Any], stages: int, ranks: int) -> str:
    if stages > 1:
        return f" of stage {rank['stage']}" + (f", rank {rank['rank']}" if ranks > stages else "")
    return f" of rank {rank['rank']}" if ranks > 1 else ""


def _layers(subject: Subject, stages: list[list[dict[str, Any]]], is_own_config: bool) -> Iterable[Row]:
    """How the layers are dealt out to the stages, and what a stage weighs on average."""
    counts = [int(members[0].get("layers") or 0) for members in stages]
    total = subject.spec.architecture.layers
    if total is not None and all(counts):
        yield _row("layers of all stages", total, sum(counts), "A stage lacks layers, or the spec states another number of them.")
        yield _row(
            "layers of the fullest stage",
            ceil(total / len(stages)),
            max(counts),
            "The plan gives that stage an even share of weights and cache.",
        )
    yield Row("layers by stage", None, counts, "told")
    mean = sum(rank["parameter_bytes"] for members in stages for rank in members) / sum(map(len, stages)) / GIB
    yield _weights(subject, mean, is_own_config, " on average", 0.0)


def _end_of_pipeline(subject: Subject) -> float:
    """GiB by which stages may differ: the first one has the embedding, the last one the head (docs/memory.md)."""
    network = subject.spec.architecture
    return (network.hidden or 0) * network.vocab * 2 / subject.engine.tensor_parallel / GIB


def _layout(rank: dict[str, Any]) -> tuple[Any, ...]:
    return rank["block_size"], rank["kv_specs"], rank["backends"]


def _configuration(subject: Subject, found: dict[str, Any]) -> Iterable[Row]:
    engine, model = subject.engine, subject.model
    yield _row("architecture", model.architecture, found["architecture"], "The spec names another network than its config.json.")
    yield _row("runner", engine.runner, found["runner"], "Rules about drafts and thinking budgets depend on the runner.")
    yield _row("max_model_len", engine.max_model_len, found["max_model_len"], "Clients are promised another window than the engine admits.")
    yield _row(
        "max_num_seqs", engine.max_num_seqs, found["max_num_seqs"], "State blocks and graphs are planned for another number of sequences."
    )
    yield _row(
        "max_num_batched_tokens",
        engine.max_num_batched_tokens,
        found["max_num_batched_tokens"],
        "The activation peak is planned for another batch.",
    )
    yield _row("tensor_parallel_size", engine.tensor_parallel, found["tensor_parallel_size"], "Weights and cache are divided differently.")
    yield _row("data_parallel_size", engine.data_parallel, found["data_parallel_size"], "Replicas are counted differently.")
    yield _row(
        "kv_cache_dtype",
        _plain(engine.kv_cache_dtype),
        _plain(found["kv_cache_dtype"]),
        "The cache holds another number of tokens than planned.",
    )
    settings = {setting.name: setting.value for setting in engine.settings}
    for name in SETTINGS:
        if name in settings and name in found:
            yield _row(name, settings[name], found[name], "The engine makes something else of the setting, without a word.")
    yield _rope(subject, found.get("rope"))
    yield _method(settings.get("quantization"), found.get("quantization"))
    for name in ("dtype", "cudagraph_mode"):
        yield Row(name, None, found.get(name), "told")


def _method(asked: Any, found: Any) -> Row:
    """The quantization method; the engine's own names go on where ours end (awq_marlin, modelopt_fp4)."""
    if asked is None:
        return Row("quantization", None, found, "told")
    if isinstance(found, str) and found.startswith(str(asked)):
        return Row("quantization", asked, found, "same")
    return Row("quantization", asked, found, "differs", "The engine takes the checkpoint's own method instead, without a word.")


def _rope(subject: Subject, rope: dict[str, Any] | None) -> Row:
    factor, found = subject.model.yarn_factor, (rope or {}).get("factor")
    kind = (rope or {}).get("rope_type", "none")
    if factor is None:
        return Row("rope", None, f"{kind}, factor {found}" if found else kind, "told")
    why = "The YaRN override is swallowed without effect: positions beyond the native window are wrong, and the engine does not say so."
    return _row("rope", f"yarn, factor {factor:g}", f"{kind}, factor {found:g}" if isinstance(found, (int, float)) else kind, why)


def _cache(subject: Subject, rank: dict[str, Any], growing: float | None) -> Iterable[Row]:
    """The cache as the first rank has it.

    With states kept for every block, what a token costs is not in any layer's own page: the tokens tell it.
    """
    memory = subject.memory
    less = "The cache holds another number of tokens than planned."
    yield _row("block_size", memory.block_size, rank["block_size"], "Prefix hits and state slots come in other steps than planned.")
    if growing is not None:
        yield _near("bytes_per_token", memory.bytes_per_token, growing, CLOSE, less)
    cache = rank.get("cache")
    if not cache:
        why = "Not judged: there is no cache to divide, or this release divides it where podwright does not look."
        yield Row("kv_tokens", memory.kv_tokens.mid, None, "told", why)
        return
    tokens, full = "From the same memory the release makes another number of tokens.", "The pool holds another number of full windows."
    yield _near("kv_tokens", memory.kv_tokens.mid, cache["tokens"], CLOSE, tokens)
    yield _near("concurrency", memory.concurrency.mid, round(cache["concurrency"], 2), CLOSE, full)
    yield Row("num_blocks", None, cache["num_blocks"], "told")


def _backends(rank: dict[str, Any], label: str) -> Iterable[Row]:
    for kind in ("attention", "linear", "experts"):
        if rank["backends"].get(kind):
            yield Row(f"{kind} backends{label}", None, _counted(rank["backends"][kind]), "told")


def _weights(subject: Subject, found: float, is_own_config: bool, label: str, slack: float) -> Row:
    """Weights of one rank beside the plan's, which may differ by `slack` GiB more than any two do."""
    planned, name, found = subject.memory.weights_gib, f"weights{label}, GiB", round(found, 3)
    if not is_own_config:
        return Row(name, planned, found, "told", NOT_JUDGED)
    if abs(planned - found) <= slack + WEIGHTS_CLOSE * max(planned, found):
        return Row(name, planned, found, "same")
    return Row(name, planned, found, "differs", "The planner takes another share of the card for weights.")


def _kernel(subject: Subject, backends: dict[str, dict[str, int]], is_own_config: bool) -> Iterable[Row]:
    """A kernel that the spec names must be among those that the release picked for this card; unquantized layers tell nothing."""
    names = " ".join([*backends.get("linear", {}), *backends.get("experts", {})])
    if not any("Unquantized" not in name for kind in ("linear", "experts") for name in backends.get(kind, {})):
        return
    for kernel in KERNELS:
        if kernel not in subject.model.kernel.lower():
            continue
        if kernel in names.lower():
            yield Row("kernel", subject.model.kernel, names, "same")
        elif is_own_config:
            yield Row(
                "kernel",
                subject.model.kernel,
                names,
                "differs",
                "The spec says that another kernel computes the quantized weights on this card.",
            )
        else:
            yield Row("kernel", subject.model.kernel, names, "told", NOT_JUDGED)


def token_bytes(specs: Iterable[dict[str, Any]]) -> float:
    """Bytes that one more token of an attention layer's cache costs, over all layers; states cost none."""
    growing = [spec for spec in specs if "Mamba" not in spec["kind"] and "Sliding" not in spec["kind"] and "Chunked" not in spec["kind"]]
    return float(sum(spec["layers"] * spec["real_page_bytes"] / spec["block_size"] for spec in growing))


def _counted(names: dict[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(names.items(), key=lambda pair: (-pair[1], pair[0])))


def _plain(dtype: str) -> str:
    return {"fp8_e4m3": "fp8", "bfloat16": "auto"}.get(dtype, dtype)


def _row(name: str, planned: Any, found: Any, why: str) -> Row:
    same = json.dumps(planned, default=str) == json.dumps(found, default=str) or planned == found
    return Row(name, planned, found, "same") if same else Row(name, planned, found, "differs", why)


def _near(name: str, planned: float, found: float, within: float, why: str) -> Row:
    close = abs(planned - found) <= within * max(abs(planned), abs(found))
    return Row(name, planned, found, "same") if close else Row(name, planned, found, "differs", why)
