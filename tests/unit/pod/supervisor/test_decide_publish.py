"""Publications and swaps: the smallest action, no cut for nothing, and the way back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pod.contract import Manifest
from pod.supervisor.changes import RETRY_S
from pod.supervisor.effects import CancelSteps, FetchRuntime, HandOver, Preload, ReloadBridge, RunStep
from pod.supervisor.events import Published, Refused, Requests, RuntimeFetched, SwapWanted
from pod.supervisor.publishing import QUIET_S, action_between
from pod.supervisor.state import holds, owes

from tests.unit.pod.manifests import example_manifest
from tests.unit.pod.supervisor.history import History, other_argv, swap_set, target

GENTLE = ("secrets", "argv", "weights")
HARD = ("drain", "stop", "prepare", "start", "prove")


def other_bridge() -> Manifest:
    return example_manifest(bridge=dataclasses.replace(example_manifest().bridge, ping_s=9.0))


def other_settings() -> Manifest:
    supervisor = example_manifest().supervisor
    return example_manifest(supervisor=dataclasses.replace(supervisor, watchdog=dataclasses.replace(supervisor.watchdog, probe_timeout_s=120.0)))


def other_image() -> Manifest:
    return example_manifest(pod=dataclasses.replace(example_manifest().pod, image="i:2"))


@pytest.mark.parametrize(
    ("new", "action"),
    [(example_manifest(), "nothing"), (other_settings(), "settings"), (other_bridge(), "bridge"), (other_argv("--x"), "engine"),
     (other_image(), "pod"), (example_manifest(bridge=dataclasses.replace(example_manifest().bridge, mode="off")), "pod")],
)  # fmt: skip
def test_the_smallest_action(new: Manifest, action: str) -> None:
    assert action_between(target(), target(new)) == action


@pytest.mark.parametrize("manifest", [example_manifest(), example_manifest(compiler="0.2.0"), other_settings()])
def test_nothing_is_cut_by_a_publication_that_does_not_touch_the_engine(manifest: Manifest) -> None:
    history = History().serves().publishes(manifest)
    assert not history.did(RunStep) and not history.did(ReloadBridge)
    assert history.state.name == "serving" and history.state.target.sha == manifest.sha256() and history.state.sequence == 1


def test_a_bridge_change_touches_the_bridge_alone() -> None:
    history = History().serves().publishes(other_bridge())
    assert history.did(ReloadBridge) and not history.did(RunStep)
    assert history.state.target.manifest.bridge.ping_s == 9.0


def test_an_engine_change_is_checked_before_anything_stops() -> None:
    history = History().serves().publishes(other_argv("--x"))
    for step in GENTLE:
        assert history.state.name == "serving" and not holds(history.state)
        history.done(step)
    assert history.state.name == "draining" and holds(history.state) and history.state.serving
    history.done("drain")
    assert history.state.name == "reloading" and holds(history.state) and not history.state.serving
    history.done(*HARD[1:])
    assert history.state.name == "serving" and history.state.pending is None
    assert history.state.target.manifest == other_argv("--x") == (history.state.good and history.state.good.manifest)


@pytest.mark.parametrize(("failing", "kind"), [("argv", "argv"), ("weights", "gated"), ("secrets", "secret")])
def test_a_publication_that_cannot_start_never_stops_the_service(failing: str, kind: str) -> None:
    history = History().serves().publishes(other_argv("--x"))
    for step in GENTLE[: GENTLE.index(failing)]:
        history.done(step)
    history.fails(failing, kind)
    assert history.state.name == "serving" and history.state.serving
    assert "stop" not in history.steps_begun[6:]
    history.publishes(other_argv("--x"), sequence=2)
    assert not history.did(RunStep), "what is quarantined is not tried again"
    assert history.state.sequence == 2


def test_weights_that_cannot_be_fetched_now_are_fetched_later() -> None:
    history = History().serves().publishes(other_argv("--x")).done("secrets", "argv").fails("weights", "offline")
    assert history.state.name == "serving" and not history.state.quarantined
    assert history.passes(RETRY_S - 1).step is None
    assert history.passes(1).step == "secrets"


@pytest.mark.parametrize("failing", ["prepare", "start", "prove"])
def test_one_that_does_not_serve_goes_back_by_itself(failing: str) -> None:
    history = History().serves()
    good = history.state.target
    history.publishes(other_argv("--x")).done(*GENTLE, *HARD[: HARD.index(failing)])
    history.fails(failing, "wrong-answer", "said 'nine'")
    assert history.state.name == "reloading" and holds(history.state)
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.state.target == good and history.state.name == "serving"
    assert "said 'nine'" in history.state.notice or "said 'nine'" in next(iter(history.state.is_quarantined.values()))
    assert not history.publishes(other_argv("--x"), sequence=2).did(RunStep)


def test_an_engine_that_exits_at_the_start_of_a_publication_goes_back() -> None:
    history = History().serves().publishes(other_argv("--x")).done(*GENTLE, *HARD[:3]).engine_dies(1, cause="unknown model")
    assert history.state.change is not None and history.state.change.kind == "rollback"
    assert not history.state.restarts, "a bad publication does not eat the budget of restarts"


def test_a_publication_that_never_serves_goes_back_after_the_longest_start() -> None:
    history = History().serves().publishes(other_argv("--x")).done(*GENTLE, *HARD[:3])
    limit = history.state.target.manifest.supervisor.watchdog.boot_stall_s
    assert history.passes(limit - 1).step == "start"
    history.passes(2)
    assert history.state.change is not None and history.state.change.kind == "rollback"


def test_a_rollback_that_crashes_is_restarted() -> None:
    history = History().serves().publishes(other_argv("--x")).done(*GENTLE, *HARD[:3]).engine_dies(1)
    history.done("stop", "secrets", "weights", "prepare").engine_dies(1)
    assert history.state.change is not None and history.state.change.kind == "restart"


def test_two_publications_in_a_row_the_last_one_wins() -> None:
    history = History().serves().publishes(other_argv("--first"), 1).done("secrets", "argv")
    history.publishes(other_argv("--second"), 2)
    assert history.did(CancelSteps) and history.step == "secrets"
    history.done(*GENTLE, *HARD)
    assert history.state.target.manifest == other_argv("--second")


def test_one_that_comes_in_the_middle_of_a_restart_waits_for_its_end() -> None:
    history = History().serves().publishes(other_argv("--first"), 1).done(*GENTLE, *HARD[:2]).publishes(other_argv("--second"), 2)
    assert history.step == "prepare"
    history.done(*HARD[2:])
    assert history.step == "secrets", "the second follows at once"
    history.done(*GENTLE, *HARD)
    assert history.state.target.manifest == other_argv("--second") and history.state.pending is None


def test_a_failed_first_does_not_take_the_second_with_it() -> None:
    history = History().serves().publishes(other_argv("--first"), 1).done(*GENTLE, *HARD[:3]).publishes(other_argv("--second"), 2).engine_dies(1)
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.step == "secrets" and history.state.change is not None
    assert history.state.change.target.manifest == other_argv("--second")


def test_a_publication_during_the_first_start_replaces_it() -> None:
    history = History().begins().done("secrets", "weights", "stop", "prepare").publishes(other_argv("--x"))
    assert history.did(CancelSteps) and history.step == "secrets"
    history.done("secrets", "weights", "stop", "prepare", "start", "prove")
    assert history.state.target.manifest == other_argv("--x")


def _fresh_pod_with_a_publication() -> History:
    return History().begins().done("secrets", "weights").publishes(other_argv("--x")).done("secrets", "weights", "stop", "prepare")


def test_a_fresh_pod_whose_publication_crashes_in_a_loop_starts_its_own_manifest() -> None:
    history = _fresh_pod_with_a_publication()
    own = history.state.target.sha
    while (change := history.state.change) is not None and change.kind != "rollback":
        history.engine_dies(1, cause="no room") if change.step == "start" else history.done(change.step)
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.state.name == "serving" and history.state.target.sha == own and history.state.fallback is None
    assert list(history.state.is_quarantined) == [target(other_argv("--x")).sha]
    assert not history.publishes(other_argv("--x"), sequence=2).did(RunStep)


def test_a_fresh_pod_whose_publication_names_what_does_not_exist_starts_its_own_manifest() -> None:
    history = History().begins().done("secrets", "weights").publishes(other_argv("--x")).done("secrets").fails("weights", "no-such-model")
    assert history.state.change is not None and history.state.change.kind == "rollback"
    assert history.state.change.target.sha == history.state.target.sha and history.state.fatal is None
    history.done("stop", "secrets", "weights", "prepare").fails("start", "no-such-program")
    assert history.state.fatal is not None and history.state.change is None


def test_a_fresh_pod_waits_for_a_network_before_it_gives_a_publication_up() -> None:
    history = History().begins().done("secrets", "weights").publishes(other_argv("--x")).done("secrets").fails("weights", "offline")
    assert history.state.fatal is not None and history.state.fatal.retry_at and not history.state.quarantined


def test_what_could_not_be_started_before_a_publication_is_nothing_to_go_back_to() -> None:
    history = History().begins().done("secrets").fails("weights", "no-such-model").publishes(other_argv("--x"))
    assert history.state.fallback is None
    history.done("secrets").fails("weights", "no-such-model")
    assert history.state.fatal is not None and history.state.change is None


def test_one_that_waits_for_quiet() -> None:
    history = History().serves().happens(Requests(2, 0)).publishes(other_argv("--x"), when="idle")
    assert history.step is None and "waits" in history.state.notice
    history.happens(Requests(0, 0)).passes(QUIET_S - 1)
    assert history.step is None
    history.passes(1)
    assert history.step == "secrets"


def test_another_image_is_said_and_not_done() -> None:
    history = History().serves().publishes(other_image())
    assert history.state.name == "serving" and "new pod" in history.state.notice and not history.did(RunStep)


def test_a_refused_publication_changes_nothing() -> None:
    before = History().serves()
    history = before.happens(Refused("bad-signature", "its signature is wrong"))
    assert history.state.name == "serving" and "signature" in history.state.notice and not history.did(RunStep)


def test_a_crash_while_a_publication_is_checked_is_mended_first() -> None:
    history = History().serves().publishes(other_argv("--x")).done("secrets", "argv").engine_dies()
    assert history.state.change is not None and history.state.change.kind == "restart"
    history.done("stop", "pause", "prepare", "start", "prove")
    assert history.step == "secrets" and history.state.change is not None and history.state.change.kind == "reload"


def test_an_engine_that_ends_while_it_is_drained_saves_time() -> None:
    history = History().serves().publishes(other_argv("--x")).done(*GENTLE).engine_dies(0)
    assert history.step == "stop" and history.did(CancelSteps)


def test_another_runtime_is_fetched_and_handed_over_to() -> None:
    history = History().serves().publishes(other_bridge(), runtime="f" * 64)
    assert history.did(FetchRuntime) == [FetchRuntime("f" * 64)]
    assert history.happens(RuntimeFetched("f" * 64, True)).did(HandOver) == [HandOver("f" * 64)]


def test_a_runtime_that_cannot_be_fetched_leaves_the_manifest() -> None:
    history = History().serves().publishes(other_bridge(), runtime="f" * 64).happens(RuntimeFetched("f" * 64, False, "wrong hash"))
    assert history.state.target.manifest == other_bridge() and history.did(ReloadBridge)


def test_a_manifest_of_a_newer_schema_needs_its_runtime() -> None:
    history = History().serves().happens(Published(None, 3, "now", None))
    assert "later runtime" in history.state.notice
    assert history.happens(Published(None, 3, "now", "e" * 64)).did(FetchRuntime)


def test_a_publication_is_owed_until_it_is_in_force_or_given_up() -> None:
    history = History().serves()
    assert not owes(history.state)
    history.publishes(other_argv("--x")).done(*GENTLE, "drain", "stop", "prepare", "start")
    assert owes(history.state), "a supervisor that dies now must be handed it again"
    history.done("prove")
    assert not owes(history.state)
    history.publishes(other_argv("--y"), 2).fails("secrets", "secret")
    assert not owes(history.state) and history.state.quarantined


def test_a_publication_that_heals_a_fatal_state_is_owed_while_it_boots() -> None:
    history = History().begins().done("secrets").fails("weights", "not-found")
    history.publishes(other_argv("--fixed"))
    assert history.state.name == "booting" and owes(history.state)
    history.done("secrets", "weights", "stop", "prepare").engine_dies(1)
    assert history.step == "stop" and owes(history.state), "tried once more, and still not in force"
    history.done("stop", "pause", "prepare", "start", "prove")
    assert not owes(history.state)


def test_a_publication_that_only_its_own_runtime_can_read_is_owed_until_that_reads_it() -> None:
    history = History().serves().happens(Published(None, 3, "now", "e" * 64))
    assert owes(history.state)
    assert owes(history.happens(RuntimeFetched("e" * 64, True)).state)
    assert not owes(History().serves().happens(Published(None, 3, "now", "e" * 64)).happens(RuntimeFetched("e" * 64, False, "no")).state)


DOWN = ("secrets", "weights", "stop", "prepare", "start", "prove")


def test_a_publication_while_the_engine_comes_back_keeps_its_clients_waiting() -> None:
    history = History().serves()
    before = history.state.target
    history.engine_dies().done("stop").publishes(other_argv("--x"))
    for _ in DOWN:
        assert history.state.name == "reloading" and holds(history.state) and owes(history.state)
        assert history.step is not None
        history.done(history.step)
    assert history.state.name == "serving" and history.state.target.sha == other_argv("--x").sha256() and history.state.good_before == before


@pytest.mark.parametrize(("step", "kind"), [("weights", "gated"), ("start", "stalled"), ("weights", "network")])
def test_and_goes_back_to_what_served_where_it_does_not_work(step: str, kind: str) -> None:
    history = History().serves().engine_dies().done("stop").publishes(other_argv("--x"))
    history.done(*DOWN[: DOWN.index(step)]).fails(step, kind)
    assert history.state.change is not None and history.state.change.kind == "rollback" and holds(history.state)
    assert bool(history.state.quarantined) is (kind != "network"), "a network that is away says nothing about a manifest"
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.state.serving and (history.state.pending is not None) is (kind == "network")


def test_a_supervisor_that_died_in_a_reload_goes_on_with_it() -> None:
    new = target(other_argv("--x"), 1)
    history = History().begins(engine_pid=7, bridge_pid=8, going=new, has_clients=True)
    assert history.step == "start" and history.state.name == "reloading" and holds(history.state) and owes(history.state)
    history.publishes(other_argv("--x")).done("start", "prove")
    assert history.state.target.sha == new.sha and history.state.pending is None and not history.ever(CancelSteps)


@pytest.mark.parametrize("facts", [{"engine_pid": 7, "is_ours": True}, {}])
def test_a_supervisor_that_died_in_a_restart_keeps_clients_waiting(facts: dict[str, Any]) -> None:
    history = History()
    history.state = history.state.but(good=history.state.target)
    history.begins(bridge_pid=8, has_clients=True, **facts)
    assert history.state.name == "reloading" and holds(history.state)
    fresh = History()
    fresh.state = fresh.state.but(good=fresh.state.target)
    fresh.begins(has_clients=True, **facts)
    assert fresh.state.name == "booting" and not holds(fresh.state), "nobody waits at a bridge that is gone"


def test_a_swap_and_the_way_back_when_it_fails() -> None:
    history = History(swap_set()).serves()
    assert history.did(Preload) == [Preload(("q",))]
    history.happens(SwapWanted("q")).happens(SwapWanted("q"))
    assert history.state.change is not None and history.state.change.kind == "swap" and not history.state.swaps
    history.done("secrets", "weights")
    assert history.state.name == "swapping" and holds(history.state)
    history.done("drain", "stop", "prepare").engine_dies(1, cause="out of memory")
    assert history.state.swap_failure is not None and "out of memory" in history.state.swap_failure.reason
    history.done("stop", "secrets", "weights", "prepare", "start", "prove")
    assert history.state.target.engine == "p" and history.state.name == "serving"
    assert not history.state.quarantined


def test_a_swap_that_works_is_where_it_stays() -> None:
    history = History(swap_set()).serves().happens(SwapWanted("q")).done("secrets", "weights", *HARD)
    assert history.state.target.engine == "q" and history.state.swap_failure is None
    history.engine_dies().done("stop", "pause", "prepare", "start", "prove")
    assert history.state.target.engine == "q"


def test_a_swap_back_is_wished_for_while_the_first_is_under_way() -> None:
    history = History(swap_set()).serves().happens(SwapWanted("q")).done("secrets", "weights").happens(SwapWanted("p"))
    history.done(*HARD)
    assert history.state.change is not None and history.state.change.target.engine == "p"


def test_weights_that_are_missing_fail_a_swap_without_a_cut() -> None:
    history = History(swap_set()).serves().happens(SwapWanted("q")).done("secrets").fails("weights", "no-room", "12 GiB free of 26")
    assert history.state.name == "serving" and history.state.serving and history.state.swap_failure is not None


def test_an_unknown_name_is_no_swap() -> None:
    history = History(swap_set()).serves().happens(SwapWanted("zz"))
    assert history.step is None and history.state.swap_failure is not None


def test_a_publication_keeps_the_engine_that_was_swapped_in() -> None:
    history = History(swap_set()).serves().happens(SwapWanted("q")).done("secrets", "weights", *HARD)
    changed = dataclasses.replace(swap_set(), bridge=dataclasses.replace(swap_set().bridge, ping_s=9.0))
    history.publishes(changed)
    assert history.state.target.engine == "q" and history.did(ReloadBridge) and not history.did(RunStep)
