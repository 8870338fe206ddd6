"""Corners of the verdicts that no incident has shown yet, and the budget of restarts."""

from __future__ import annotations

import dataclasses
import itertools

from pod.watchdog.crash_loop import RestartBudget
from pod.watchdog.metrics import Counters, EngineCounters
from pod.watchdog.probe import ProbeResult
from pod.watchdog.stall import GIB, Boot, BootStall
from pod.watchdog.verdict import BridgeWatchdog, Observation, Verdict, Watchdog

from tests.unit.pod.watchdog.world import DEFAULTS, Engine, Job, Pod

OK = ProbeResult(True, "a", 0.1, "", 200)
MISS = ProbeResult(False, "", 40.0, "no answer within 40 s")


class Looks:
    """Observations of one adopted engine, five seconds apart."""

    def __init__(self, adopted: bool = True) -> None:
        self.watchdog, self.now, self.adopted = Watchdog(DEFAULTS), 0.0, adopted

    def see(self, **facts: object) -> Verdict:
        self.now += 5.0
        values = {"start": "a", "alive": True, "health": True, "adopted": self.adopted, **facts}
        return self.watchdog.observe(self.now, Observation(**values))  # type: ignore[arg-type]


def test_an_engine_without_counters_is_judged_by_three_generations() -> None:
    looks = Looks()
    verdicts = []
    for _ in range(3):
        while looks.see(counters=Counters()).request != "probe":
            pass
        looks.now += 10.0
        verdicts.append(looks.see(counters=Counters(), probe=MISS))
    assert [v.request for v in verdicts] == ["probe", "probe", "restart-engine"]
    assert verdicts[0].probe_timeout_s == DEFAULTS.probe_timeout_s


def test_a_refused_generation_is_reported_once_and_never_counts() -> None:
    looks, still = Looks(), Counters({"0": EngineCounters()})
    requests = []
    for _ in range(200):
        verdict = looks.see(counters=still)
        if verdict.request == "probe":
            verdict = looks.see(counters=still, probe=ProbeResult(False, "", 0.1, "HTTP 401", 401))
        requests.append(verdict.request)
    assert requests.count("report") == 1
    assert "restart-engine" not in requests


def test_an_engine_that_was_never_idle_is_warm_all_the_same() -> None:
    """Under load nothing is probed: what clients were answered must count, or a wedge after hours of service has the patience of a start."""
    looks, seen = Looks(adopted=False), []
    for n in range(20):
        looks.see(counters=Counters({"0": EngineCounters(running=3, generation_tokens=float(n), finished=float(n))}))
    stuck = Counters({"0": EngineCounters(running=3, generation_tokens=19.0, finished=19.0)})
    while "restart-engine" not in seen and len(seen) < 100:
        seen.append(looks.see(counters=stuck).request)
    assert 5.0 * len(seen) <= DEFAULTS.probe_timeout_s + 10.0


def test_answers_that_clients_broke_off_warm_nothing() -> None:
    looks = Looks(adopted=False)
    for n in range(20):
        looks.see(counters=Counters({"0": EngineCounters(running=1, generation_tokens=float(n), finished=float(n), aborted=float(n))}))
    stuck = Counters({"0": EngineCounters(running=1, generation_tokens=19.0, finished=19.0, aborted=19.0)})
    verdicts = [looks.see(counters=stuck) for _ in range(30)]
    assert "restart-engine" not in [verdict.request for verdict in verdicts] and "warming" in [verdict.state for verdict in verdicts]


def test_one_stuck_engine_of_a_data_parallel_group_is_seen_while_the_others_work() -> None:
    looks = Looks()
    stuck, reasons = EngineCounters(running=1, kv_usage=0.2), []
    for n in range(25):
        reasons.append(looks.see(counters=Counters({"0": EngineCounters(running=1, generation_tokens=float(n)), "1": stuck})))
    assert reasons[-1].state == "stalled"
    assert [v.request for v in reasons].count("restart-engine") == 1


def test_a_restart_that_does_not_come_is_asked_for_again_without_a_second_charge() -> None:
    looks, stuck = Looks(), Counters({"0": EngineCounters(running=1)})
    asked = [looks.now for _ in range(60) if looks.see(counters=stuck).request == "restart-engine"]
    assert len(asked) == 4
    assert asked[1] - asked[0] == 60.0
    assert looks.watchdog.budget.restarts == 1


def test_a_wedge_that_dies_is_asked_for_at_once_and_charged_once() -> None:
    looks, stuck = Looks(), Counters({"0": EngineCounters(running=1)})
    while looks.see(counters=stuck).request != "restart-engine":
        pass
    verdict = looks.see(alive=False, health=False, ended="signal 9")
    assert (verdict.state, verdict.request) == ("dead", "restart-engine")
    assert looks.see(alive=False, health=False).request is None
    assert looks.watchdog.budget.restarts == 1


def test_a_generation_that_is_answered_takes_a_verdict_back() -> None:
    looks, still = Looks(), Counters({"0": EngineCounters()})
    for _ in range(2):
        while looks.see(counters=still).request != "probe":
            pass
        verdict = looks.see(counters=still, probe=MISS)
    assert verdict.request == "restart-engine"
    assert looks.see(counters=still).request == "probe"
    assert looks.see(counters=still, probe=OK).state == "idle"


def test_a_wedge_that_frees_itself_before_anybody_acted_is_forgotten() -> None:
    looks, stuck = Looks(), Counters({"0": EngineCounters(running=1)})
    while looks.see(counters=stuck).state != "stalled":
        pass
    assert looks.see(counters=Counters({"0": EngineCounters(running=1, kv_usage=0.1)})).state == "busy"
    assert looks.see(counters=Counters({"0": EngineCounters()})).state == "idle"


def test_doubt_about_still_counters_is_asked_away() -> None:
    looks, stuck = Looks(), Counters({"0": EngineCounters(running=1)})
    verdicts = [looks.see(counters=stuck) for _ in range(10)]
    assert [v.request for v in verdicts].count("probe") == 1
    assert "nothing moved for" in verdicts[-1].reason
    assert looks.see(counters=Counters({"0": EngineCounters(generation_tokens=24)}), probe=OK).state == "idle"


def test_a_wedge_during_warm_up_is_still_found() -> None:
    pod = Pod(lambda n: Engine(f"s{n}", boots_in=30.0, frozen_at=31.0 if n == 0 else 1e12))
    pod.run(30.0 + 3 * 100.0 + 130.0)
    assert len(pod.requested("restart-engine")) == 1
    pod = Pod(lambda n: Engine(f"s{n}", boots_in=30.0, frozen_at=40.0 if n == 0 else 1e12))
    pod.run(33.0)
    pod.engine.jobs.insert(0, Job(0.0, 1e6))
    pod.run(4 * 90.0 + 60.0)
    assert len(pod.requested("restart-engine")) == 1


def test_a_probe_whose_result_got_lost_is_asked_again() -> None:
    looks, still = Looks(), Counters({"0": EngineCounters()})
    asked = [looks.now for _ in range(80) if looks.see(counters=still).request == "probe"]
    assert len(asked) >= 2
    assert all(late - early <= 60.0 + 60.0 for early, late in itertools.pairwise(asked))


def test_between_two_engines_nothing_is_asked_for() -> None:
    looks = Looks(adopted=False)
    for start, alive in (("a", True), (None, False), ("b", True)):
        assert looks.see(start=start, alive=alive, health=False).state == "booting"


def test_other_settings_hold_from_the_next_look_on() -> None:
    looks, stuck = Looks(), Counters({"0": EngineCounters(running=1)})
    assert [looks.see(counters=stuck) for _ in range(14)][-1].state == "busy"
    looks.watchdog.configure(dataclasses.replace(DEFAULTS, probe_timeout_s=60.0))
    assert looks.see(counters=stuck).state == "stalled"


def test_budget_backs_off_and_opens_after_failed_starts_in_a_row() -> None:
    budget = RestartBudget(3)
    first, second, third = (budget.ask(float(n), False, f"exit code {n}") for n in range(3))
    assert (first.allowed, first.wait_s, second.allowed, second.wait_s) == (True, 10.0, True, 30.0)
    assert (third.allowed, third.reason) == (False, "3 starts in a row ended before serving, the last one by exit code 2")
    assert budget.ask(1e6, True, "x").allowed is False
    budget.reset()
    assert budget.ask(1e6, True, "x") == dataclasses.replace(first, wait_s=0.0, reason="x")


def test_a_start_that_served_breaks_the_row() -> None:
    budget = RestartBudget(3)
    for n in range(10):
        assert budget.ask(n * 4000.0, False, "x").allowed
        assert budget.ask(n * 4000.0 + 1.0, False, "x").allowed
        budget.served()


def test_budget_of_two_hours_empties_with_time() -> None:
    budget = RestartBudget(3)
    assert all(budget.ask(n * 1300.0, True, "x").allowed for n in range(60)), "every 22 minutes is within it"
    budget = RestartBudget(3)
    assert [budget.ask(n * 1000.0, True, "x").allowed for n in range(8)] == [True] * 6 + [False] * 2


def test_weights_that_shrink_or_grow_are_progress_and_whole_ones_are_never_short() -> None:
    stall = BootStall()
    for size in (5, 4, 3, 2, 1):
        assert stall.observe(115.0, Boot("load", present_bytes=size * GIB, expected_bytes=47 * GIB), 1800.0) == ""
    assert not Boot("load", present_bytes=int(46.5 * GIB), expected_bytes=47 * GIB).is_short
    assert not Boot("load", present_bytes=0, expected_bytes=None).is_short
    assert Boot("load", 2, 8).line() == "load 2 of 8"


def test_bridge_settings_below_two_failures_are_two() -> None:
    bridge = BridgeWatchdog(1)
    assert bridge.observe(False).request is None
    assert bridge.observe(False).request == "restart-bridge"
