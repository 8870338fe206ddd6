"""The expected speed: bytes read for a token over the bandwidth, an efficiency that was measured, and the cache that is read again.

One session of context L needs ``bytes / (bandwidth * efficiency) + cache(L) / (bandwidth * KV_ALONE)`` a token. A step of n
sessions takes ``step + bytes(n) / (bandwidth * efficiency) + n * cache(L) / (bandwidth * KV_TOGETHER)``, where a mixture reads as
many experts as n tokens are expected to reach. Efficiencies, steps and spreads stand in the hardware's spec, fitted on the records
that it cites; docs/planner.md tells the residuals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod

from compiler.plan.core import EnginePlan
from compiler.plan.memory import Interval, MemoryPlan
from compiler.plan.speed import SpeedFigure, SpeedPlan
from compiler.schema.hardware import ModelSpeed
from compiler.schema.specset import SpecSet

# Share of the bandwidth at which one session's cache is read: 84 % from the slope on an Ada card, 85 % from two points on two A40.
KV_ALONE = 0.84
KV_ALONE_EVIDENCE = ("ada-ornith-nvfp4/ornith-nvfp4-decode-law",)
# The same with six agents of 80,000 tokens each on two A40; their turns have prefills in between, as agents' turns do.
KV_TOGETHER = 0.28
KV_TOGETHER_EVIDENCE = ("agents/agentbench-v59",)
# One model on two A40 gave 100.2, 116.2 and 117 tok/s in three sessions, one of them 11 % off what fits all: nothing is promised
# more exactly.
SESSION_SPREAD = 0.11
# Two models on one card differ by this factor in efficiency, so a card with records of one other model promises no more.
MODEL_FACTOR = 1.37
SHORT_PROMPT = 1000
# Parts that a decoded token does not read, or of which it reads a row.
NOT_READ = frozenset({"vision", "mtp", "embeddings", "ngram-embedding"})


@dataclasses.dataclass(frozen=True, slots=True)
class _Reads:
    """What a token reads: bytes on all GPUs together, of routed experts and of the rest; and the cache's bytes on one GPU for a token."""

    rest: float
    experts: float
    count: int
    per_token: int
    cache: float

    def weights(self, tokens: int) -> float:
        """Bytes of weights that a step of so many tokens reads: the experts that they reach, each once."""
        if not 0 < self.per_token < self.count:
            return self.rest + self.experts
        reached = self.count * (1 - (1 - self.per_token / self.count) ** tokens)
        return self.rest + self.experts * reached / self.per_token


def resolve_speed(specs: SpecSet, engine: EnginePlan, memory: MemoryPlan) -> SpeedPlan:
    """Expected rates of the profile's own model, or the reason why there are none."""
    missing = _missing(specs, engine)
    if missing:
        return SpeedPlan("none", missing, "", (), ())
    own = [row for row in specs.hardware.speed if row.model == specs.profile.model]
    rows = own or list(specs.hardware.speed)
    bandwidth = (specs.hardware.gpu.bandwidth_gb_s or 0.0) * 1e9
    estimate = _Estimate(rows, bool(own), _reads(specs, memory), bandwidth, specs.hardware.count)
    figures = tuple(_figures(estimate, specs, engine))
    names = ", ".join(row.model for row in rows)
    reason = (
        f"Calibrated on records of {names} on this hardware."
        if own
        else f"No record of this model on this hardware; efficiencies are those of {names}."
    )
    return SpeedPlan("same-model" if own else "same-hardware", reason, estimate.law(), figures, _evidence(rows, figures))


def _missing(specs: SpecSet, engine: EnginePlan) -> str:
    """Why no number can be given; empty when one can."""
    parts = [part for part in specs.model.quantization.parts if part.part not in NOT_READ]
    settings = {s.name: s.value for s in engine.settings}
    checks = (
        (not specs.hardware.speed, "No record of any speed on this hardware is cited."),
        (specs.hardware.gpu.bandwidth_gb_s is None, "The hardware's bandwidth is not known."),
        (
            not any(part.bytes_read_per_token for part in parts) or any(part.bytes_read_per_token is None for part in parts),
            "Nobody has counted the bytes that this model reads for a token.",
        ),
        (engine.speculation != "off", f"Speculation ({engine.speculation}) changes what a pass gives, and no law was measured with it."),
        (engine.kv_cache_dtype.startswith("turboquant"), "A TurboQuant cache is expanded at each step, and no law was measured with it."),
        (
            engine.tensor_parallel != specs.hardware.count,
            f"The records are of {specs.hardware.count} GPUs that share each layer; this profile has {engine.tensor_parallel}.",
        ),
        (settings.get("enforce_eager") is True, "Without CUDA graphs a step has another cost, and no law was measured without them."),
        (bool(settings.get("cpu_offload_gb")), "Weights in host memory cross the bus at each step, and no law was measured with them."),
    )
    return next((reason for is_missing, reason in checks if is_missing), "")


def _reads(specs: SpecSet, memory: MemoryPlan) -> _Reads:
    parts = specs.model.quantization.parts
    experts = sum(p.bytes_read_per_token or 0 for p in parts if p.part == "routed-experts")
    rest = sum(p.bytes_read_per_token or 0 for p in parts if p.part != "routed-experts")
    shape = specs.model.architecture
    return _Reads(rest, experts, shape.experts, shape.experts_per_token, memory.bytes_per_token)


@dataclasses.dataclass(frozen=True, slots=True)
class _Estimate:
    """The law with the numbers of one hardware. `bandwidth` is one GPU's, in bytes a second; the GPUs share each layer."""

    rows: Sequence[ModelSpeed]
    is_own: bool
    reads: _Reads
    bandwidth: float
    gpus: int

    def solo(self, context: int) -> Interval:
        """Tokens a second of one session."""
        cache = context * self.reads.cache / (self.bandwidth * KV_ALONE)
        rows = [row.solo for row in self.rows]
        return self._rate(1, [(self.reads.weights(1) / (self.bandwidth * self.gpus * r.efficiency) + cache, r.spread) for r in rows])

    def aggregate(self, sessions: int, context: int) -> Interval | None:
        """Tokens a second of all sessions together; None where no records reach as many. The high end reads the cache as one does."""
        rows = [row.batch for row in self.rows if row.batch is not None and row.batch.sessions >= sessions]
        if not rows:
            return None
        weights = [(r.step_ms / 1e3 + self.reads.weights(sessions) / (self.bandwidth * self.gpus * r.efficiency), r.spread) for r in rows]
        cache = sessions * context * self.reads.cache / self.bandwidth
        slow = self._rate(sessions, [(t + cache / KV_TOGETHER, spread) for t, spread in weights])
        quick = self._rate(sessions, [(t + cache / KV_ALONE, spread) for t, spread in weights])
        return Interval(slow.low, slow.mid if context > SHORT_PROMPT else quick.mid, quick.high)

    def prefill(self, context: int) -> Interval | None:
        """Tokens a second of one prompt; of the same model only, since no law carries it over."""
        row = self.rows[0].prefill if self.is_own else None
        if row is None:
            return None
        return self._rate(1, [((row.us_per_token + (row.us_per_token_each_1k or 0.0) * context / 1e3) / 1e6, row.spread)])

    def law(self) -> str:
        """The sum for one session, at the middle."""
        efficiency = _middle([row.solo.efficiency for row in self.rows])
        size, speed = self.reads.weights(1) / 1e9, self.bandwidth * self.gpus / 1e9
        return (
            f"{size:.2f} GB a token / ({speed:,.0f} GB/s x {efficiency:.1%}) = {size / (speed * efficiency) * 1e3:.2f} ms, "
            f"and {self.reads.cache / (self.bandwidth * KV_ALONE) * 1e9:.2f} ms for each million tokens of context"
        )

    def _rate(self, tokens: int, times: Sequence[tuple[float, float]]) -> Interval:
        """The rate of `tokens` in each of the times (seconds, spread): the middle one, and the ends that the spreads allow."""
        factor = 1.0 if self.is_own or len(times) > 1 else MODEL_FACTOR
        spreads = [1 + max(spread, SESSION_SPREAD) for _, spread in times]
        low = min(tokens / (t * s) for (t, _), s in zip(times, spreads, strict=True)) / factor
        high = max(tokens / t * s for (t, _), s in zip(times, spreads, strict=True)) * factor
        return Interval(round(low, 1), round(_middle([tokens / t for t, _ in times]), 1), round(high, 1))


def _middle(values: Sequence[float]) -> float:
    """The geometric mean: efficiencies differ by factors."""
    return float(prod(values) ** (1 / len(values)))


def _figures(estimate: _Estimate, specs: SpecSet, engine: EnginePlan) -> list[SpeedFigure]:
    """Alone and together, at a short prompt and at the workload's usual one, and the prefill of that."""
    work = specs.profile.workload
    usual = min(work.typical_prompt, engine.max_model_len) if work and work.typical_prompt else 0
    contexts = [c for c in dict.fromkeys((min(SHORT_PROMPT, engine.max_model_len), usual)) if c]
    figures = [SpeedFigure("solo", 1, context, estimate.solo(context)) for context in contexts]
    sessions = min(work.sessions, engine.max_num_seqs) if work else 1
    if sessions > 1:
        together: list[tuple[int, Interval | None]] = [(c, estimate.aggregate(sessions, c)) for c in contexts]
        figures += [SpeedFigure("aggregate", sessions, context, rate) for context, rate in together if rate is not None]
    row = estimate.rows[0].prefill if estimate.is_own else None
    length = (usual or SHORT_PROMPT) if row is not None and row.us_per_token_each_1k is not None else 0
    rate = estimate.prefill(length)
    return [*figures, SpeedFigure("prefill", 1, length, rate)] if rate is not None else figures


def _evidence(rows: Sequence[ModelSpeed], figures: Sequence[SpeedFigure]) -> tuple[str, ...]:
    """Every record behind the figures, once."""
    kinds = {figure.kind for figure in figures}
    cited: list[str] = []
    for row in rows:
        cited += row.solo.evidence
        cited += row.batch.evidence if row.batch is not None and "aggregate" in kinds else ()
        cited += row.prefill.evidence if row.prefill is not None and "prefill" in kinds else ()
    with_cache = {figure.kind for figure in figures if figure.context > SHORT_PROMPT}
    cited += KV_ALONE_EVIDENCE if "solo" in with_cache else ()
    cited += KV_TOGETHER_EVIDENCE if "aggregate" in with_cache else ()
    return tuple(dict.fromkeys(cited))
