"""From budget and layout to a verdict, with its reasons in plain sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.plan.memory import GIB, Calibration, Interval, MemoryWarning, Verdict
from compiler.resolve.memory.adapters import lora_gib
from compiler.resolve.memory.budget import Budget
from compiler.resolve.memory.inputs import MeasuredKV, MemoryInputs
from compiler.resolve.memory.layout import CacheLayout
from compiler.resolve.memory.overhead import cold_start_gib, context_gib, encoder_runs

LARGE_CARD_MARGIN_GIB = 2.0  # up to 1.95 GiB beyond the share was held on an H200 after a start
FULL_PREFILL_TRANSIENT_GIB = 3.2  # two prefills of a full window on a 96 GB GPU; the profile covers about one


@dataclass(slots=True)
class Findings:
    """What the checks collect before the plan is frozen."""

    refused: list[str] = field(default_factory=list)
    tight: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[MemoryWarning] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst that was found."""
        if self.refused:
            return "refused"
        return "tight" if self.tight else "fits"

    def warn(self, code: MemoryWarning, note: str) -> None:
        """Keep ``code`` once, with the sentence that explains it."""
        if code not in self.warnings:
            self.warnings.append(code)
        self.notes.append(note)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The cache as sized: budget, layout and the block counts at the three estimates."""

    inputs: MemoryInputs
    budget: Budget
    layout: CacheLayout
    kv_check: Interval
    blocks: tuple[int, int, int]

    @property
    def needed_gib(self) -> float:
        """Cache that the start-up check asks for one full window."""
        return self.layout.needed_bytes(self.inputs.max_model_len) / GIB

    @property
    def asked_gib(self) -> float:
        """The same with the block that late releases keep back: what the pool must have."""
        return self.layout.admission_bytes(self.inputs.max_model_len) / GIB


def judge(sizing: Sizing, calibration: Calibration | None = None) -> Findings:
    """All checks, each of which adds what it finds; none stops the others."""
    findings = Findings()
    _check_start(sizing, findings)
    _check_window(sizing, findings)
    _check_state_blocks(sizing, findings)
    _check_outside(sizing, findings)
    _note_budget(sizing, findings, calibration)
    _note_layout(sizing, findings)
    return findings


def free_after_start(sizing: Sizing, outside: float, context: float) -> float:
    """GiB of the card left once the engine serves: what is outside its share, or outside the fixed cache."""
    budget = sizing.budget
    used = sizing.inputs.card.already_used_bytes / GIB
    if not budget.fixed:
        return budget.total.mid - used - budget.requested.mid - outside - context
    extra = budget.extra
    held = (budget.weights.mid + budget.kv.mid + extra.activation.mid + extra.non_torch.mid
            + max(0.0, extra.graphs_charged.mid))
    return budget.total.mid - used - held - outside - context


def _check_start(sizing: Sizing, findings: Findings) -> None:
    """The engine compares free memory with its share before anything is loaded; a fixed cache has no check."""
    budget, card = sizing.budget, sizing.inputs.card
    used = card.already_used_bytes / GIB
    if budget.fixed:
        extra = budget.extra
        least = (budget.weights.low + budget.kv.low + extra.activation.low + extra.non_torch.low + used
                 + context_gib(card).low)
        if least > budget.total.high:
            findings.refused.append(
                f"weights, cache and activations take at least {least:.2f} GiB of a GPU that has "
                f"{budget.total.mid:.2f} GiB: {least - budget.total.high:.2f} GiB too much.")
        return
    free_high = budget.total.high - used - context_gib(card).low
    if free_high < budget.requested.low:
        findings.refused.append(
            f"only {free_high:.2f} GiB is free when the engine starts, but utilization "
            f"{sizing.inputs.utilization:g} asks for {budget.requested.mid:.2f} GiB: "
            f"{budget.requested.low - free_high:.2f} GiB too little.")
    elif budget.total.mid - used - context_gib(card).mid < budget.requested.mid:
        findings.tight.append(
            f"utilization {sizing.inputs.utilization:g} asks for {budget.requested.mid:.2f} GiB, about all that is "
            "free when the engine starts.")


def _check_window(sizing: Sizing, findings: Findings) -> None:
    """One request of the full window must fit the cache. No recorded start whose middle estimate lay below zero served."""
    needed, kv = sizing.asked_gib, sizing.kv_check
    layout, window = sizing.layout, sizing.inputs.max_model_len
    if kv.mid < 0 or layout.blocks(kv.high * GIB) == 0:
        findings.refused.append(
            f"no memory is left for the cache: {max(0.0, -kv.mid):.2f} GiB too little at the middle estimate, before one "
            "block; no window would fit.")
        return
    if needed > kv.high:
        longest = layout.longest(kv.mid * GIB)
        fit = (f"the largest window that would fit is about {longest:,} tokens" if longest
               else "no window would fit at the middle estimate")
        findings.refused.append(
            f"one request of {window:,} tokens needs {needed:.2f} GiB of cache, at most {kv.high:.2f} GiB "
            f"({kv.mid:.2f} expected) is available: {needed - kv.mid:.2f} GiB too little; {fit}.")
    elif needed > kv.mid:
        findings.tight.append(
            f"one request of {window:,} tokens needs {needed:.2f} GiB of cache and {kv.mid:.2f} GiB is expected: it "
            f"starts only if overhead is small; {layout.longest(kv.mid * GIB):,} tokens fit as expected.")
    elif needed > kv.low:
        findings.tight.append(
            f"one request of {window:,} tokens needs {needed:.2f} GiB of cache; {kv.mid:.2f} GiB is expected but "
            f"{kv.low:.2f} GiB is possible, which admits {layout.longest(kv.low * GIB):,} tokens.")


def _check_state_blocks(sizing: Sizing, findings: Findings) -> None:
    """Full graphs hold one state for each sequence, so the engine refuses more sequences than blocks
    (``config/compilation.py``); eager and piecewise-only runs pass."""
    inputs = sizing.inputs
    if not inputs.is_hybrid:
        return
    if not inputs.hybrid_manager:
        findings.refused.append("the hybrid cache manager is off, and state layers cannot share one cache type with "
                                "attention layers.")
        findings.warn(MemoryWarning.STATE_LAYERS_CANNOT_UNIFY, "leave the hybrid cache manager on for this model.")
    captured = inputs.full_cudagraphs and not inputs.enforce_eager
    low, mid, high = sizing.blocks
    if not captured or inputs.sequences <= low:
        return
    text = (f"max_num_seqs {inputs.sequences} exceeds the state blocks ({low:,} to {high:,}, {mid:,} expected) and full "
            "CUDA graphs are captured; lower max_num_seqs.")
    (findings.refused if inputs.sequences > high else findings.tight).append(text)
    findings.warn(MemoryWarning.STATE_BLOCKS_BELOW_MAX_NUM_SEQS, text)


def _check_outside(sizing: Sizing, findings: Findings) -> None:
    """What grows beyond the share must find room on the card."""
    budget, card = sizing.budget, sizing.inputs.card
    outside = budget.extra.outside
    free = free_after_start(sizing, outside.mid, context_gib(card).mid)
    beyond = budget.total.mid - budget.requested.mid - card.already_used_bytes / GIB
    if (free >= 0 and not budget.fixed and sizing.inputs.is_large_card and not sizing.inputs.enforce_eager
            and beyond < LARGE_CARD_MARGIN_GIB):
        text = (f"utilization {sizing.inputs.utilization:g} leaves {beyond:.2f} GiB beyond the share; "
                f"{LARGE_CARD_MARGIN_GIB:g} GiB is the least that held on a large card.")
        findings.tight.append(text)
        findings.warn(MemoryWarning.OUTSIDE_BUDGET_GROWTH, text)
    elif free < 0:
        text = (f"the process grows {outside.mid:.2f} GiB beyond its share (graphs, kernels' buffers), "
                f"{-free:.2f} GiB more than the card has left; lower the utilization.")
        findings.tight.append(text)
        findings.warn(MemoryWarning.OUTSIDE_BUDGET_GROWTH, text)
    elif free_after_start(sizing, outside.high, context_gib(card).high) < 0:
        findings.warn(
            MemoryWarning.OUTSIDE_BUDGET_GROWTH,
            f"up to {outside.high:.2f} GiB may be held beyond the share, and {free:.2f} GiB is free after the start.")
    if card.already_used_bytes:
        findings.warn(
            MemoryWarning.DESKTOP_SHARES_CARD,
            f"{card.already_used_bytes / GIB:.2f} GiB of the card is in use before the engine starts, and may grow.")
    transient = FULL_PREFILL_TRANSIENT_GIB - budget.extra.activation.mid
    if budget.fixed and free < transient:
        findings.warn(
            MemoryWarning.TWO_FULL_PREFILLS_TRANSIENT,
            f"two prefills of a full window at once took {FULL_PREFILL_TRANSIENT_GIB} GiB on a 96 GB card; only "
            f"{max(0.0, free):.2f} GiB is free beyond one batch.")


def _note_budget(sizing: Sizing, findings: Findings, calibration: Calibration | None) -> None:
    """Facts of the budget that the engine's log does not tell in time."""
    inputs, extra = sizing.inputs, sizing.budget.extra
    if inputs.kv_cache_memory_bytes is not None:
        findings.warn(MemoryWarning.KV_BYTES_SKIP_PROFILING,
                      "a fixed cache size skips the accounting: utilization is ignored and nothing checks that "
                      "activations and graphs still fit.")
    if inputs.num_gpu_blocks_override is not None:
        findings.warn(MemoryWarning.BLOCKS_OVERRIDE, "the block count is overridden: memory is not checked against it.")
    if not inputs.enforce_eager and extra.graphs_charged.mid <= 0.0:
        findings.warn(MemoryWarning.GRAPHS_OUTSIDE_BUDGET,
                      f"this release and runner take CUDA graphs, about {extra.graphs_used.mid:.2f} GiB, from outside "
                      "the share.")
    if (narrower := cold_start_gib(inputs)) >= 0.1:
        findings.warn(MemoryWarning.COLD_START_NARROWER,
                      f"a cold start, where torch.compile runs, has about {narrower:.1f} GiB less cache than a warm one.")
    if inputs.spec_tokens:
        findings.warn(MemoryWarning.SPECULATIVE_LOGITS,
                      "drafts multiply the sampler's rows; its buffers may be taken after the profile.")
    if inputs.speculation is not None and inputs.speculation.weights_bytes:
        findings.warn(MemoryWarning.DRAFT_PRICED,
                      f"the draft's weights take {inputs.speculation.weights_bytes / inputs.tp / GIB:.2f} GiB a rank.")
    _note_moved_weights(inputs, findings)
    if encoder_runs(inputs):
        findings.warn(MemoryWarning.ENCODER_CHARGED,
                      "the encoder's weights and its profiling batch are charged; language-model-only gives them back.")
    if calibration is not None:
        findings.notes.append(_calibration_note(calibration))
    elif extra.activation.high - extra.activation.low > 8.0:
        findings.warn(MemoryWarning.WIDE_OVERHEAD,
                      "activations of this batch, release or model class are poorly known: measure one start.")


def _calibration_note(c: Calibration) -> str:
    """By which record, what it moved, at which settings, and how far those are."""
    there = f"with {', '.join(c.differs)}" if c.differs else "with these settings, as far as it states them"
    return (f"calibrated by {c.evidence}: a start of this model on this hardware {there} had {c.measured_gib:.2f} GiB of cache where the laws "
            f"expect {c.expected_gib:.2f}. Its parts differ from this plan's by {c.distance_gib:.2f} GiB, so the cache is known within "
            f"{c.slack_gib:.2f} GiB.")


def _note_moved_weights(inputs: MemoryInputs, findings: Findings) -> None:
    """Weights that are not where the checkpoint's size says: in host memory, or slots for adapters."""
    if inputs.cpu_offload_bytes:
        findings.notes.append(
            f"{inputs.cpu_offload_bytes / GIB:g} GiB of each rank's weights stay in pinned host memory and cross the bus at every step; "
            "the host needs that much for each GPU.")
    if inputs.lora is not None:
        slots = lora_gib(inputs)
        findings.notes.append(
            f"slots for {inputs.lora.adapters} LoRA adapters of rank {inputs.lora.rank} count with the weights: {slots.mid:.2f} GiB, estimated "
            f"({slots.low:.2f} to {slots.high:.2f}); graphs are captured with and without adapters.")


def _note_layout(sizing: Sizing, findings: Findings) -> None:
    """Facts of the pool's geometry."""
    inputs, layout = sizing.inputs, sizing.layout
    if isinstance(inputs.geometry, MeasuredKV):
        findings.warn(MemoryWarning.MEASURED_GEOMETRY, "cache costs come from a measurement, not from the geometry.")
    if any(bucket.shape.kind in ("sliding", "chunked") for bucket in layout.buckets):
        findings.warn(MemoryWarning.SLIDING_BATCH_RESERVE,
                      f"window layers reserve their window and {layout.inflight:,} tokens in flight for each request; "
                      "a smaller batch gives longer windows.")
    if not inputs.hybrid_manager and any(g.kind in ("sliding", "chunked") for g in inputs.groups):
        findings.warn(MemoryWarning.HYBRID_MANAGER_OFF, "without the hybrid manager window layers cost as full ones.")
    if layout.old_token_line:
        findings.warn(MemoryWarning.TOKEN_LINE_UNDERSTATES,
                      "this release prints a token figure that is too small by about the number of groups.")
