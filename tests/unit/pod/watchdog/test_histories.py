"""Every incident that made a version of the logbook's watchdog, replayed: the version that failed must fail here too, ours must not.

Source: chapters 7, 8, 9, 10, 12, 16 and 18 of the logbook; behaviours B-160 and B-170 to B-180.
"""

from __future__ import annotations

import pytest
from pod.watchdog.stall import GIB, Boot
from pod.watchdog.verdict import BridgeWatchdog

from tests.unit.pod.watchdog.world import Engine, Job, OldWatchdog, Pod

TWO_MINUTES = 120.0


def serving_pod(offset: float = 0.0, frozen_at: float = 1e12, mute_at: float = 1e12, dies_at: float = 1e12) -> Pod:
    """A pod past its first three probes; later starts are healthy."""
    first = Engine("first", frozen_at=frozen_at, mute_at=mute_at, dies_at=dies_at)
    pod = Pod(lambda n: Engine(f"start {n}", boots_in=360.0) if n else first, offset=offset)
    pod.run(60.0)
    assert pod.requested("restart-engine") == []
    return pod


def test_july_wedge_behind_a_smiling_http_fails_v1() -> None:
    old, frozen = OldWatchdog(1), Engine("x", frozen_at=100.0)
    frozen.jobs.append(Job(0.0, 1e6))
    old.watch(frozen, 6000.0)
    assert old.acts == []

    pod = serving_pod(frozen_at=200.0)
    pod.engine.jobs.append(Job(5.0, 1e6))
    pod.run(139.0)
    assert pod.last.state == "busy"
    pod.run(TWO_MINUTES)
    [at] = pod.requested("restart-engine")
    assert at - 1200.0 <= TWO_MINUTES
    reason = next(v.reason for _, v in pod.log if v.request == "restart-engine")
    assert "requests are in the engine and none of its counters moved" in reason


@pytest.mark.parametrize("offset", [0.0, 1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("frozen_at", range(100, 135))
def test_wedge_of_an_idle_engine_is_found_within_two_minutes_wherever_it_falls(frozen_at: int, offset: float) -> None:
    pod = serving_pod(offset, frozen_at=float(frozen_at))
    pod.run(frozen_at + TWO_MINUTES + 5.0 - 60.0)
    restarts = pod.requested("restart-engine")
    assert len(restarts) == 1
    assert restarts[0] - 1000.0 - frozen_at <= TWO_MINUTES
    assert len(pod.requested("probe")) >= 2 + 3, "never on one missed probe"


def test_wedge_by_a_tiny_request_in_mid_generation_of_6_august() -> None:
    pod = serving_pod(frozen_at=205.0)
    pod.run(140.0)
    pod.engine.jobs.append(Job(1.0, 60.0))
    pod.run(TWO_MINUTES + 5.0)
    assert len(pod.requested("restart-engine")) == 1
    pod.run(700.0)
    assert pod.last.state == "idle"
    assert pod.started == 1


@pytest.mark.parametrize("boot_s", [360.0, 900.0, 1700.0])
def test_a_boot_of_fifteen_minutes_is_no_failure_fails_v1(boot_s: float) -> None:
    # v1 saw HTTP silent for 15 minutes and could not know that this was a start.
    old = OldWatchdog(1)
    for second in range(int(boot_s) + 1):
        old._http(float(second), False)
    assert bool(old.acts) == (boot_s >= 900.0)

    pod = Pod(lambda n: Engine("x", boots_in=boot_s))
    pod.run(boot_s + 200.0)
    assert pod.requested("restart-engine") == []
    assert pod.requested("report") == []
    assert pod.states[0] == "booting"
    assert pod.last.state == "idle"


def test_july_out_of_memory_loop_at_boot_fails_v2() -> None:
    def counter(now: float) -> int:
        return int(now // 240)

    v2, v4 = OldWatchdog(2), OldWatchdog(4)
    v2.watch(Engine("x", boots_in=1e12), 20000.0, counter)
    v4.watch(Engine("x", boots_in=1e12), 20000.0, counter)
    assert v2.acts == []
    assert v4.acts == [("signal crash loop", 720.0)]

    pod = Pod(lambda n: Engine(f"start {n}", boots_in=1e12, dies_at=240.0))
    pod.run(5000.0)
    assert pod.started == 2, "three starts ended, two were made by us"
    assert pod.last.state == "crash-loop"
    assert len(pod.requested("report")) == 1, "said once"
    assert "3 starts in a row ended before serving" in pod.last.reason


def test_invisible_restarter_with_exit_code_zero_and_flat_counter_fails_v4_and_v5() -> None:
    # Somebody else ended the engine in its boot; Docker's counter, which v4 and v5 read, stayed flat.
    for version in (4, 5):
        old = OldWatchdog(version)
        old.watch(Engine("x", boots_in=1e12), 1500.0, lambda now: 0)
        assert old.acts == []
    pod = Pod(lambda n: Engine(f"start {n}", boots_in=1e12, dies_at=300.0))
    pod.run(1500.0)
    assert pod.last.state == "crash-loop"
    assert "exit code 0" in pod.last.reason


def phantom(age: float) -> Boot:
    """The engine said `loading` and then nothing; 0.3 of 47 GiB are on disk and grow by kilobytes."""
    return Boot("load", present_bytes=GIB // 3 + int(age) * 2000, expected_bytes=47 * GIB, folder="/models/qwen")


def test_6_august_empty_mount_fails_v4() -> None:
    old = OldWatchdog(4)
    old.watch(Engine("x", boots_in=1e12, boot=phantom), 3600.0)
    assert old.acts == [], "an hour long it took the phantom download for a patient boot"

    pod = Pod(lambda n: Engine("x", boots_in=1e12, boot=phantom))
    pod.run(3600.0)
    assert pod.requested("restart-engine") == [], "the same empty folder would be mounted again"
    [at] = pod.requested("report")
    assert at - 1000.0 <= 200.0
    assert pod.last.state == "boot-stalled"
    assert "/models/qwen holds 0.3 GiB of 47.0 GiB" in pod.last.reason
    assert "df -h /models/qwen" in pod.last.reason


def test_slow_but_real_download_is_no_stall() -> None:
    def download(age: float) -> Boot:
        return Boot("load", present_bytes=int(age) << 20, expected_bytes=20 * GIB, folder="/m")

    pod = Pod(lambda n: Engine("x", boots_in=1e12, boot=download))
    pod.run(15000.0)
    assert pod.states == ["booting"]


def test_boot_without_any_progress_is_said_once_with_its_phase_and_can_recover() -> None:
    def stuck_capture(age: float) -> Boot:
        return Boot("capture", min(3, int(age)) if age < 4000.0 else 9, 51, loaded=True)

    pod = Pod(lambda n: Engine("x", boots_in=4100.0, boot=stuck_capture))
    pod.run(4300.0)
    assert len(pod.requested("report")) == 1
    report = next(v for _, v in pod.log if v.request == "report")
    assert "in phase capture 3 of 51" in report.reason
    assert pod.states[:4] == ["booting", "boot-stalled", "booting", "warming"]
    assert pod.last.state == "idle"
    assert pod.requested("restart-engine") == []


def test_slow_first_generations_after_boot_fail_v4() -> None:
    # Measured: 52 s, 16 s, 0.5 s, and that v4 restarted a healthy engine over it; how slow its two misses were is not told, so
    # the slowest measured answer stands for both.
    slow = (52.0, 52.0, 16.0, 0.5)
    v4, v5 = OldWatchdog(4), OldWatchdog(5, grace=3)
    v4.watch(Engine("x", warm_up=slow), 600.0)
    v5.watch(Engine("x", warm_up=slow), 600.0)
    assert v4.acts != []
    assert v5.acts == []
    pod = Pod(lambda n: Engine("x", boots_in=30.0, warm_up=(300.0, 300.0, 300.0)))
    pod.run(2000.0)
    assert pod.requested("restart-engine") == [], "three probes that all fail do not count"
    assert "warming" in pod.states


def test_24_september_giant_prefill_fails_v5_before_its_last_tuning() -> None:
    def giant() -> Engine:
        engine = Engine("x")
        engine.jobs.append(Job(150.0, 30.0))
        return engine

    before, after = OldWatchdog(5, timeout_s=40.0), OldWatchdog(5, timeout_s=90.0)
    before.watch(giant(), 400.0)
    after.watch(giant(), 400.0)
    assert before.acts != [], "the probe starved behind the giant"
    assert after.acts == []

    longer = OldWatchdog(5, timeout_s=90.0)
    engine = Engine("x")
    engine.jobs.append(Job(400.0, 10.0))
    longer.watch(engine, 800.0)
    assert longer.acts != [], "a timeout only moves the limit"


@pytest.mark.parametrize("prefill_s", [180.4, 205.0, 538.8, 1800.0])
def test_a_prefill_of_any_length_is_never_killed(prefill_s: float) -> None:
    pod = serving_pod()
    pod.engine.jobs.append(Job(prefill_s, 60.0))
    before = len(pod.requested("probe"))
    pod.run(prefill_s + 40.0)
    assert pod.requested("restart-engine") == []
    assert len(pod.requested("probe")) == before, "requests that run are their own probe"
    assert "stalled" not in pod.states


def test_a_giant_that_arrives_together_with_a_probe_is_never_killed() -> None:
    for lead in range(40):
        pod = serving_pod()
        pod.run(float(lead))
        pod.engine.jobs.insert(0, Job(205.0, 20.0))
        pod.run(400.0)
        assert pod.requested("restart-engine") == []


def test_engine_stopped_with_its_http_is_found_within_two_minutes() -> None:
    for at in range(100, 135, 3):
        pod = serving_pod(frozen_at=float(at), mute_at=float(at))
        pod.run(at + TWO_MINUTES + 5.0 - 60.0)
        [restart] = pod.requested("restart-engine")
        assert restart - 1000.0 - at <= TWO_MINUTES


def test_one_missed_look_or_probe_never_acts() -> None:
    pod = serving_pod()
    for _ in range(30):
        pod.engine.mute_at = 0.0
        pod.run(60.0)
        pod.engine.mute_at = 1e12
        pod.run(20.0)
    assert pod.requested("restart-engine") == []


def test_two_september_everything_was_deleted_and_nobody_watched_from_outside() -> None:
    # The engine is gone while it served: a fact, not a missed probe, so it is restarted at once.
    pod = serving_pod(dies_at=100.0)
    pod.run(60.0)
    [at] = pod.requested("restart-engine")
    assert at - 1100.0 <= 10.0
    assert "dead" in pod.states


def test_wedge_after_wedge_ends_the_spend() -> None:
    pod = Pod(lambda n: Engine(f"start {n}", boots_in=60.0, frozen_at=90.0))
    pod.run(8 * 3600.0)
    assert pod.started <= 6
    assert pod.last.state == "crash-loop"
    assert "restarts within 120 minutes did not help" in pod.last.reason
    starts = pod.started
    pod.run(4 * 3600.0)
    assert pod.started == starts, "an open breaker does not close by itself"


@pytest.mark.parametrize("leap", [3600.0, -3600.0, 86400.0 * 365])
def test_a_clock_that_jumps_changes_nothing(leap: float) -> None:
    pod = serving_pod()
    pod.engine.jobs.append(Job(100.0, 20.0))
    pod.run(30.0)
    pod.clock = lambda now: now + leap
    pod.run(300.0)
    assert pod.requested("restart-engine") == []
    assert pod.last.state in ("idle", "busy")
    pod.engine.frozen_at = pod.engine.age
    pod.run(TWO_MINUTES + 5.0)
    assert len(pod.requested("restart-engine")) == 1


def test_a_supervisor_that_slept_blames_nobody() -> None:
    pod = serving_pod()
    pod.engine.jobs.append(Job(1000.0, 10.0))
    pod.run(20.0)
    pod._next_look = pod.now + 600.0
    frozen, pod.engine.frozen_at = pod.engine.frozen_at, pod.engine.age
    pod.run(602.0)
    pod.engine.frozen_at = frozen
    pod.run(60.0)
    assert pod.requested("restart-engine") == []


def test_silent_bridge_of_23_august_restarts_the_bridge_alone() -> None:
    bridge = BridgeWatchdog(2)
    assert bridge.observe(False).request is None
    assert bridge.observe(True).state == "idle"
    assert bridge.observe(False).request is None
    assert bridge.observe(False).request == "restart-bridge"
    assert bridge.observe(False).request is None, "the new bridge has its own two chances"
