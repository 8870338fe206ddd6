"""Settings that fit, found by planning again: the largest window, or room for so many sessions of so many tokens."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from compiler.diagnostics import Diagnostic, Place, Severity
from compiler.load import SpecStore
from compiler.load.yaml_text import shown
from compiler.plan.memory import Interval
from compiler.planning import Planned, planned_profile
from compiler.planning.changes import Change, changed_store, parsed_changes
from compiler.resolve.context import largest_window
from compiler.units import grouped, token_count

OPTION = "--solve"
_SESSIONS = re.compile(r"sessions=([0-9]{1,6})@([0-9.]+ *[A-Za-z]*)")
UTILIZATIONS = (0.90, 0.92, 0.93, 0.94, 0.95)  # Above 0.95 no start that the planner knows left room for what grows beyond the share.
NARROW_BATCH = 2048
HALF_CACHE = "fp8"


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """What must fit: so many sessions of so many tokens each; `tokens` 0 asks for the largest window."""

    text: str
    sessions: int = 1
    tokens: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One set of changes (`--what-if` texts), what it costs in words, and the plan with it.

    `held` are the sessions of the goal that the KV cache holds at once, `safe` the largest window that surely fits there;
    `missing` says why it does not do, empty when it does.
    """

    changes: tuple[str, ...]
    costs: tuple[str, ...]
    held: Interval
    verdict: str
    context: int
    safe: int
    missing: str

    @property
    def does(self) -> bool:
        """True when the goal is met for sure: at the low estimate, without an error."""
        return not self.missing


@dataclasses.dataclass(frozen=True, slots=True)
class Solution:
    """The answer: `found` does what was asked with the fewest and cheapest changes; where it is None, `nearest` misses by the least."""

    goal: Goal
    found: Candidate | None
    nearest: Candidate | None
    candidates: tuple[Candidate, ...]


def parsed_goal(text: str) -> Goal | Diagnostic:
    """`context`, or `sessions=6@85k`; a finding for anything else."""
    if text == "context":
        return Goal(text)
    match = _SESSIONS.fullmatch(text.strip())
    try:
        tokens = token_count(match[2]) if match else 0
    except ValueError:
        tokens = 0
    if match and int(match[1]) > 0 and isinstance(tokens, int) and tokens > 0:
        return Goal(text, int(match[1]), tokens)
    what, why = f"`{shown(text)}` is nothing to solve for", "No plan was searched."
    return Diagnostic(
        "PLN002",
        Severity.ERROR,
        what,
        why,
        "Write `context`, or sessions with their tokens: `sessions=6@85k`.",
        Place(f"{OPTION} {shown(text)}"),
    )


def solved(store: SpecStore, base: Planned, start: Planned, goal: Goal, given: Sequence[str] = ()) -> Solution:
    """The answer for the profile of `base`, searched from `start`: its plan under the sound changes `given` (texts of `--what-if`)."""
    search = _Search(store, base, start, tuple(given), goal)
    return search.largest_context() if goal.tokens == 0 else search.room_for_sessions()


def planned_with(store: SpecStore, base: Planned, texts: Iterable[str]) -> tuple[Planned | None, list[Change]]:
    """The plan with the changes and the changes; None when the specs refuse them. Of two changes of one key the later one holds."""
    parsed = [change for text in texts for change in parsed_changes([text], base.specs)[0]]
    changes = list({(c.path, c.route): c for c in parsed}.values())
    over, problems = changed_store(store, base.specs, changes)
    return (None if problems else planned_profile(over, base.specs.name)[0]), changes


class _Search:
    """Plans of one profile under changes."""

    def __init__(self, store: SpecStore, base: Planned, start: Planned, given: tuple[str, ...], goal: Goal) -> None:
        self.store, self.base, self.start, self.given, self.goal = store, base, start, given, goal

    def plan(self, changes: Iterable[str]) -> Planned | None:
        """The plan with the changes on top of the given ones."""
        return planned_with(self.store, self.base, (*self.given, *changes))[0]

    def largest_context(self) -> Solution:
        """The largest window, up to what the model may be served with, that surely fits; each step is planned."""
        limit = largest_window(self.start.specs)
        best = whole = self._window(limit)
        if not whole.does and not (best := self._window(1)).does:
            return Solution(self.goal, None, best, (whole, best))  # Not even one token: what is in the way is not the window.
        low, high = best.context, limit
        guesses = [whole.safe, whole.safe + 1]  # The planner's own bound: right unless something else than the window is in the way.
        while high - low > 1:
            middle = next((g for g in guesses if low < g < high), (low + high) // 2)
            tried = self._window(middle)
            best, low, high = (tried, middle, high) if tried.does else (best, low, middle)
        return Solution(self.goal, best, None, tuple(dict.fromkeys((whole, best))))

    def _window(self, tokens: int) -> Candidate:
        return self._candidate((f"engine.max_model_len={tokens}",), (), tokens)

    def room_for_sessions(self) -> Solution:
        """Every combination of levers, fewest changes first, then in the order of what they cost."""
        must = self._necessary()
        found = [self._candidate(tuple(t for t, _ in must), tuple(c for _, c in must), self.goal.tokens)]
        for size in (1, 2, 3, 4):
            if any(c.does for c in found):
                break
            for chosen in itertools.combinations(self._levers(), size):
                for options in itertools.product(*chosen):
                    steps = [*must, *options]
                    found.append(self._candidate(tuple(t for t, _ in steps), tuple(c for _, c in steps), self.goal.tokens))
        best = next((c for c in found if c.does), None)
        nearest = max(found, key=lambda c: (c.verdict == "fits", c.held.low))
        return Solution(self.goal, best, None if best else nearest, tuple(found))

    def _necessary(self) -> list[tuple[str, str]]:
        """Changes without which the goal is not even served: a wide enough window, enough sequences."""
        engine, steps = self.start.plan.engine, []
        if engine.max_model_len < self.goal.tokens:
            steps.append(
                (
                    f"engine.max_model_len={self.goal.tokens}",
                    f"a window of {grouped(self.goal.tokens)} tokens instead of {grouped(engine.max_model_len)}",
                )
            )
        if engine.max_num_seqs < self.goal.sessions:
            steps.append(
                (
                    f"engine.max_num_seqs={self.goal.sessions}",
                    f"{self.goal.sessions} sequences instead of {engine.max_num_seqs}: activations and graphs of more rows",
                )
            )
        return steps

    def _levers(self) -> list[list[tuple[str, str]]]:
        """Each lever's options, the cheapest lever first; only those that would change something."""
        plan, goal = self.start.plan, self.goal
        flag = self.start.specs.flags.find("kv_cache_dtype")
        is_wide = plan.engine.kv_cache_dtype in ("auto", "bfloat16", "float16", "bf16", "fp16")
        utilization = [
            (f"engine.gpu_memory_utilization={u:.2f}", f"{u - plan.memory.utilization:.0%} of the GPU less for what grows beyond the share")
            for u in UTILIZATIONS
            if u > plan.memory.utilization + 1e-9
        ]
        levers = [
            [
                (
                    f"engine.max_num_seqs={goal.sessions}",
                    f"{plan.engine.max_num_seqs - goal.sessions} sequences fewer at once; a further request waits",
                )
            ]
            if plan.engine.max_num_seqs > goal.sessions
            else [],
            utilization if plan.hardware.architecture != "cpu" else [],
            [
                (
                    f"engine.max_model_len={goal.tokens}",
                    f"a window of {grouped(goal.tokens)} tokens instead of {grouped(plan.engine.max_model_len)}",
                )
            ]
            if plan.engine.max_model_len > goal.tokens
            else [],
            [(f"engine.max_num_batched_tokens={NARROW_BATCH}", "slower prefill and less aggregate speed")]
            if plan.engine.max_num_batched_tokens > NARROW_BATCH
            else [],
            [(f"engine.kv_cache_dtype={HALF_CACHE}", "8-bit keys and values: half the bytes, some precision at long context")]
            if is_wide and flag is not None and HALF_CACHE in flag.choices
            else [],
        ]
        return [options for options in levers if options]

    def _candidate(self, changes: tuple[str, ...], costs: tuple[str, ...], tokens: int) -> Candidate:
        """The plan with the changes, judged: sessions are counted by a second plan whose window is one session."""
        actual = self.plan(changes)
        if actual is None:
            return Candidate(changes, costs, Interval(0.0, 0.0, 0.0), "refused", 0, 0, "the specs refuse the change")
        context, memory = actual.plan.engine.max_model_len, actual.plan.memory
        counted = actual if context == tokens else self.plan([*changes, f"engine.max_model_len={tokens}"])
        held = counted.plan.memory.concurrency if counted else Interval(0.0, 0.0, 0.0)
        return Candidate(
            changes,
            costs,
            held,
            "refused" if actual.is_refused else memory.verdict,
            context,
            memory.longest_context_safe,
            self._missing(actual, held, tokens),
        )

    def _missing(self, actual: Planned, held: Interval, tokens: int) -> str:
        if actual.is_refused:
            first = next(d for d in actual.findings if d.is_error)
            return f"{first.code}: {first.what}"
        if actual.plan.memory.verdict != "fits":
            return next(iter(actual.plan.memory.reasons), actual.plan.memory.verdict)
        if tokens > (limit := largest_window(actual.specs)):
            return f"the model is served with {grouped(limit)} tokens at most"
        if self.goal.tokens and held.low < self.goal.sessions:
            return f"the KV cache surely holds {held.low:.2f} of {self.goal.sessions} sessions ({held.mid:.2f} expected)"
        return ""
