"""A start that gets nowhere: found, explained, and never restarted, because the same start would get nowhere again."""

from __future__ import annotations

import dataclasses

GIB = 1 << 30
# Growth below this within the waiting time is no progress: 19 GB at such a pace take days. In August 2026 a download of 19 GB into
# an empty mount "ran" for an hour at nearly zero.
MIN_GROWTH_BYTES = 64 << 20
# Bounds how long weights on disk may be fewer than the plan expects, without growing, after the engine was started.
SHORT_WEIGHTS_S = 120.0
# Share of the expected size that counts as whole; repositories change a README, not a fiftieth of their weights.
WHOLE = 0.98


@dataclasses.dataclass(frozen=True)
class Boot:
    """How far a start is. `phase` is the engine log's word, `done` and `total` count within it (shards, graphs), `loaded` says that the
    weights are in memory. `present_bytes` of `expected_bytes` are what was measured on disk in `folder`, None where not measured."""

    phase: str = ""
    done: int = 0
    total: int = 0
    loaded: bool = False
    present_bytes: int | None = None
    expected_bytes: int | None = None
    folder: str = ""

    def line(self) -> str:
        """For a person: `load 2 of 8`."""
        return f"{self.phase} {self.done} of {self.total}" if self.phase and self.total else self.phase

    @property
    def is_short(self) -> bool:
        """Fewer weights on disk than the plan expects, and the engine has not loaded them."""
        return not self.loaded and None not in (self.present_bytes, self.expected_bytes) and (
            (self.present_bytes or 0) < WHOLE * (self.expected_bytes or 0))


class BootStall:
    """Watches one start."""

    def __init__(self) -> None:
        self._mark: tuple[str, int, bool] | None = None
        self._mark_bytes = 0
        self._still_s = 0.0
        self._total_s = 0.0

    def observe(self, step_s: float, boot: Boot, patience_s: float) -> str:
        """A diagnosis with its repair, or an empty text while the start gets on."""
        mark, present = (boot.phase, boot.done, boot.loaded), boot.present_bytes or 0
        self._total_s += step_s
        if mark != self._mark or present >= self._mark_bytes + MIN_GROWTH_BYTES or present < self._mark_bytes:
            self._mark, self._mark_bytes, self._still_s = mark, present, 0.0
        else:
            self._still_s += step_s
        if boot.is_short and self._still_s >= min(SHORT_WEIGHTS_S, patience_s):
            return _short_weights(boot)
        if self._still_s >= patience_s:
            return _no_progress(boot, patience_s)
        return ""


def _short_weights(boot: Boot) -> str:
    measured, expected = (boot.present_bytes or 0) / GIB, (boot.expected_bytes or 0) / GIB
    return (f"weights are missing: {boot.folder or 'the weight folder'} holds {measured:.1f} GiB of {expected:.1f} GiB expected and does "
            f"not grow. The engine would wait for ever, and a restart would find the same folder: look whether the volume is mounted "
            f"(df -h {boot.folder or 'the folder'}), then restart the pod with the volume, or remove the partial folder and publish again "
            f"so that the runtime downloads the weights whole")


def _no_progress(boot: Boot, patience_s: float) -> str:
    where = f"in phase {boot.line()}" if boot.phase else "before its first sign"
    if boot.loaded:
        repair = ("the weights are in memory, so the graphs or the warm-up hang: look at the end of the engine's log; a damaged compile "
                  "cache is cured by publishing with the cache off")
    else:
        repair = ("the weights were never loaded: measure the weight folder against its expected size, and look at nvidia-smi for a card "
                  "that does not answer; a pod on another host cures the latter")
    return (f"the start has made no progress for {patience_s:.0f} s, {where}: {repair}. It is not restarted, the next start would hang "
            f"the same way")
