"""Starting, crashing, and the end of patience."""

from __future__ import annotations

import dataclasses

import pytest
from pod.supervisor.changes import RETRY_S
from pod.supervisor.effects import CancelSteps, EndSpend, KillBridge, PublishCache, RunStep, StartBridge, StopAll, StopEngine
from pod.supervisor.events import BridgeExited, BridgeStarted, Progress, StepDone, StopWanted, Verdict
from pod.supervisor.state import holds
from pod.watchdog.crash_loop import WINDOW_S

from tests.unit.pod.manifests import example_manifest
from tests.unit.pod.supervisor.history import History, other_argv


def test_a_first_start_goes_through_every_step_and_serves() -> None:
    history = History().begins()
    assert history.did(StartBridge), "the endpoint must answer from the start"
    assert history.state.name == "booting" and not holds(history.state)
    history.done("secrets", "weights", "stop", "prepare", "start", "prove")
    assert history.state.name == "serving" and history.state.good == history.state.target
    assert history.did(PublishCache)


def test_a_profile_without_bridge_starts_none() -> None:
    off = dataclasses.replace(example_manifest().bridge, mode="off")
    assert not History(example_manifest(bridge=off)).begins().did(StartBridge)


def test_a_living_engine_is_adopted() -> None:
    history = History().begins(engine_pid=7, is_ours=True, was_serving=True, bridge_pid=8)
    assert history.state.name == "serving" and history.state.bridge_pid == 8
    assert not history.did(RunStep) and not history.did(StartBridge)


def test_an_engine_that_was_still_starting_goes_on() -> None:
    history = History().begins(engine_pid=7, is_ours=True)
    assert history.step == "start" and history.state.name == "booting"
    history.done("start", "prove")
    assert history.state.name == "serving"


def test_an_engine_of_another_manifest_is_stopped() -> None:
    assert History().begins(engine_pid=7).step == "stop"


def test_a_crash_in_service_restarts_at_once_and_holds_clients() -> None:
    history = History().serves().engine_dies()
    assert history.state.name == "reloading" and holds(history.state)
    assert history.step == "stop"
    history.done("stop")
    assert history.did(RunStep)[0].grace_s == 0.0
    history.done("pause", "prepare", "start", "prove")
    assert history.state.name == "serving"
    assert [r.reason for r in history.state.restarts] == ["the engine ended with signal 9"]


def test_starts_that_never_serve_wait_longer_each_time() -> None:
    history, pauses = History().serves().engine_dies(), []
    for _ in range(3):
        history.done("stop")
        pauses.append(history.did(RunStep)[0].grace_s)
        history.done("pause", "prepare").engine_dies()
    assert pauses == [0.0, 10.0, 30.0] and history.state.name == "fatal"


def test_a_boot_that_crashes_again_and_again_ends_the_spend_once() -> None:
    history = History().begins().done("secrets", "weights", "stop", "prepare")
    for _ in range(2):
        history.engine_dies(1, cause="CUDA out of memory").done("stop", "pause", "prepare")
        assert history.state.name == "booting" and not holds(history.state)
    history.engine_dies(1, cause="CUDA out of memory")
    assert history.state.name == "fatal" and history.state.fatal is not None and history.state.fatal.code == "crash-loop"
    assert "CUDA out of memory" in history.state.fatal.cause
    assert len(history.ever(EndSpend)) == 1
    assert not history.passes(10_000).did(RunStep), "nothing tries again by itself"


def test_old_restarts_do_not_count() -> None:
    history = History().serves()
    for _ in range(10):
        history.engine_dies().done("stop", "pause", "prepare", "start", "prove").passes(WINDOW_S)
    assert history.state.name == "serving"


def test_a_manifest_that_crashes_in_a_loop_gives_way_to_the_one_before() -> None:
    history = History().serves()
    history.publishes(other_argv("--new")).done("secrets", "argv", "weights", "drain", "stop", "prepare", "start", "prove")
    new = history.state.target
    for _ in range(6):
        history.engine_dies().done("stop", "pause", "prepare", "start", "prove")
    history.engine_dies()
    assert history.state.change is not None and history.state.change.kind == "rollback"
    assert new.sha in history.state.is_quarantined
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.state.name == "serving" and history.state.target.sha != new.sha
    assert not history.ever(EndSpend)


def test_a_sick_host_is_not_restarted() -> None:
    history = History().serves().engine_dies(1, cause="CUDA error: unspecified launch failure", is_sick_host=True)
    assert history.state.fatal is not None and history.state.fatal.code == "sick-host"
    assert "another host" in history.state.fatal.fix
    assert history.did(EndSpend) and not history.did(RunStep)


@pytest.mark.parametrize("kind", ["gated", "bad-token", "no-room", "not-found", "secret"])
def test_what_only_a_person_can_mend_waits_for_a_publication(kind: str) -> None:
    history = History().begins().done("secrets").fails("weights", kind)
    assert history.state.name == "fatal" and not history.ever(EndSpend)
    assert not history.passes(1e6).did(RunStep)
    history.publishes(other_argv("--fixed"))
    assert history.state.name == "booting" and history.step == "secrets"
    history.done("secrets", "weights", "stop", "prepare", "start", "prove")
    assert history.state.fatal is None and history.state.sequence == 1


def test_a_network_that_is_away_is_asked_again_ever_more_slowly() -> None:
    history = History().begins().done("secrets").fails("weights", "offline")
    assert history.state.name == "fatal"
    assert history.passes(RETRY_S - 1).step is None
    assert history.passes(1).step == "secrets"
    history.done("secrets").fails("weights", "offline")
    assert history.passes(RETRY_S).step is None
    history.passes(RETRY_S).done("secrets", "weights", "stop", "prepare", "start", "prove")
    assert history.state.name == "serving" and history.state.fatal is None


def test_an_engine_that_answers_nonsense_is_stopped_in_the_end() -> None:
    history = History().begins().done("secrets", "weights", "stop", "prepare", "start").fails("prove", "wrong-answer")
    for _ in range(2):
        history.done("stop", "pause", "prepare", "start").fails("prove", "wrong-answer")
    assert history.state.name == "fatal" and history.did(StopEngine)


def test_a_wedge_is_restarted_and_a_boot_never() -> None:
    history = History().begins().done("secrets", "weights", "stop", "prepare").happens(Verdict("restart-engine", "no tokens"))
    assert history.step == "start"
    history.done("start", "prove").happens(Verdict("restart-engine", "no tokens for 90 s"))
    assert history.step == "stop" and history.state.restarts[0].reason == "wedged: no tokens for 90 s"


@pytest.mark.parametrize("boot_s", [30.0, 300.0, 900.0])
def test_wedge_after_wedge_ends_the_spend_also_where_a_start_takes_long(boot_s: float) -> None:
    history = History().serves()
    for _ in range(6):
        history.passes(105.0).happens(Verdict("restart-engine", "no tokens for 90 s"))
        history.done("stop", "pause", "prepare").done("start", seconds=boot_s).done("prove")
    history.passes(105.0).happens(Verdict("restart-engine", "no tokens for 90 s"))
    assert history.state.fatal is not None and history.state.fatal.code == "crash-loop"
    assert "no tokens for 90 s" in history.state.fatal.cause and len(history.ever(EndSpend)) == 1 and history.did(StopEngine)


def test_a_report_is_shown_and_changes_nothing() -> None:
    history = History().begins().happens(Verdict("report", "no weights: 0 of 26 GiB"))
    assert history.state.notice == "no weights: 0 of 26 GiB" and history.step == "secrets"


def test_a_bridge_that_ends_is_started_again_with_growing_pauses() -> None:
    history, pauses = History().serves(), []
    for pid in (1, 2, 3):
        history.happens(BridgeStarted(pid)).happens(BridgeExited(pid, 1))
        pauses.append(history.did(StartBridge)[0].delay_s)
    assert pauses == [0.0, 0.5, 2.0] and history.state.name == "serving"


def test_the_old_bridge_of_a_replacement_may_end() -> None:
    history = History().serves().happens(BridgeStarted(2)).happens(BridgeExited(1, 0))
    assert not history.did(StartBridge)


def test_a_hanging_bridge_is_killed_alone() -> None:
    history = History().serves().happens(BridgeStarted(5)).happens(Verdict("restart-bridge", "two health checks failed"))
    assert history.did(KillBridge) == [KillBridge(5)] and history.state.name == "serving"


def test_late_news_of_a_given_up_step_is_ignored() -> None:
    history = History().begins()
    change = history.state.change
    assert change is not None
    history.done("secrets").happens(StepDone(change.id, "secrets", False, "secret"))
    assert history.step == "weights"


def test_progress_shows() -> None:
    history = History().begins().happens(Progress("download", "3.0 of 26.0 GiB, 210 MiB/s"))
    assert (history.state.phase, history.state.detail) == ("download", "3.0 of 26.0 GiB, 210 MiB/s")


def test_the_end_stops_everything_once() -> None:
    history = History().serves().publishes(other_argv("--new")).happens(StopWanted("SIGTERM"))
    assert history.did(CancelSteps) and history.did(StopAll) and history.state.name == "draining"
    assert not history.happens(StopWanted("SIGTERM")).did(StopAll)
    assert not history.engine_dies(0).did(RunStep)
    assert not history.passes(100).effects


UPGRADE = "transformers 5.16.1 in place of 5.15.1"


def upgraded() -> History:
    history = History()
    history.state = history.state.but(upgrades=(UPGRADE,))
    return history.begins().done("secrets", "weights", "stop", "prepare")


def test_a_replaced_distribution_is_taken_back_before_a_first_start_counts_as_failed() -> None:
    history = upgraded().engine_dies(1)
    assert history.step == "stop" and history.state.restarts == () and history.state.upgrades == ()
    assert f"no engine has served since {UPGRADE}: taken back, once, and started again" in history.journal
    history.done("stop", "take-back", "prepare", "start", "prove")
    assert history.state.name == "serving"


def test_it_is_taken_back_once_and_then_a_crash_is_a_crash() -> None:
    history = upgraded().engine_dies(1).done("stop", "take-back", "prepare").engine_dies(1)
    assert [r.had_served for r in history.state.restarts] == [False]
    history.done("stop", "pause", "prepare", "start", "prove").engine_dies(1)
    assert history.steps_begun.count("take-back") == 1


@pytest.mark.parametrize("kind", ["wrong-answer", "no-answer"])
def test_an_engine_that_answers_badly_with_it_has_not_started(kind: str) -> None:
    history = upgraded().done("start").fails("prove", kind)
    history.done("stop", "take-back")
    assert history.step == "prepare"


def test_what_has_served_once_is_never_taken_back() -> None:
    history = upgraded().done("start", "prove").engine_dies(1)
    assert history.state.upgrades == () and history.state.name == "reloading"
    history.done("stop", "pause", "prepare").engine_dies(1)
    assert "take-back" not in history.steps_begun


@pytest.mark.parametrize("kind", ["no-program", "port-taken", "sick-host"])
def test_what_has_nothing_to_do_with_it_takes_nothing_back(kind: str) -> None:
    history = upgraded().fails("start", kind)
    assert history.state.name == "fatal" and "take-back" not in history.steps_begun
