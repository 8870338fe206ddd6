"""When the mirror copies, and what a copy holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pod.journal.mirror import (
    BRIDGE_BYTES,
    ENGINE_BYTES,
    JOURNAL_BYTES,
    Schedule,
    State,
    Subject,
    document,
    end_of,
    fingerprint,
    path_in_repo,
)
from pod.journal.redact import MASK, Redactor
from pod.watchdog.metrics import Counters, EngineCounters

SUBJECT = Subject("abc123", "ornith-ada", "vllm 0.27.1", "booting", "load 2 of 8", 18081)
ENTRY = {"at": "2026-11-30T00:53:20.250Z", "kind": "engine", "message": "started", "pid": 7}


def copies(schedule: Schedule, until: int, states: Callable[[int], State], documents: Callable[[int], str]) -> list[int]:
    """Seconds at which a copy is made, looked at every second."""
    made = []
    for now in range(until):
        if schedule.due(float(now), states(now)):
            text = documents(now)
            if schedule.wanted(float(now), text):
                made.append(now)
                schedule.copied(float(now), text)
    return made


def booting(now: int) -> State:
    return "booting"


def serving_after_a_minute(now: int) -> State:
    return "booting" if now < 60 else "serving"


def test_booting_copies_every_25_seconds_and_only_what_is_new() -> None:
    assert copies(Schedule(25.0, 120.0), 101, booting, lambda now: f"line {now}") == [0, 25, 50, 75, 100]
    assert copies(Schedule(25.0, 120.0), 101, booting, lambda now: "UTC x\nthe same") == [0]
    assert copies(Schedule(25.0, 120.0), 101, booting, lambda now: f"UTC {now}\n{now // 60}") == [0, 75]


def test_service_copies_at_its_own_pace_even_without_news() -> None:
    assert copies(Schedule(25.0, 120.0), 400, serving_after_a_minute, lambda now: "same") == [0, 65, 185, 305]


def test_a_service_period_of_zero_tells_once_that_it_serves() -> None:
    assert copies(Schedule(25.0, 0.0), 4000, serving_after_a_minute, lambda now: str(now)) == [0, 25, 50, 65]


def test_fatal_is_copied_at_once_whatever_failed_before() -> None:
    schedule = Schedule(25.0, 120.0)
    for now in (0.0, 30.0, 90.0):
        assert schedule.due(now, "booting")
        schedule.failed(now)
    assert not schedule.due(100.0, "booting")
    assert schedule.due(100.0, "fatal")
    assert schedule.wanted(100.0, "why")
    schedule.copied(100.0, "why")
    assert not schedule.due(110.0, "fatal")
    assert schedule.due(125.0, "fatal")
    assert not schedule.wanted(125.0, "why")


def test_a_hub_that_refuses_is_asked_ever_less() -> None:
    schedule, now, waits = Schedule(25.0, 120.0), 0.0, []
    for _ in range(8):
        assert schedule.due(now, "serving")
        schedule.failed(now)
        before = now
        while not schedule.due(now, "serving"):
            now += 1.0
        waits.append(now - before)
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0, 600.0]
    schedule.copied(now, "x")
    assert schedule.due(now + 120.0, "serving")


def test_a_change_of_state_does_not_cut_a_back_off_short() -> None:
    schedule = Schedule(25.0, 120.0)
    assert schedule.due(0.0, "booting")
    schedule.failed(0.0)
    assert not schedule.due(10.0, "serving")
    assert schedule.due(30.0, "serving")


def test_the_document_holds_all_that_a_reader_from_outside_needs() -> None:
    counters = Counters({"0": EngineCounters(running=2, waiting=1, kv_usage=0.317)})
    text = document(1_796_000_000.0, SUBJECT, [ENTRY], "GPU 0: 41234 of 46068 MiB used", counters, "engine says\n", "bridge says\n", Redactor([]))
    assert text == """===== podwright: pod abc123, profile ornith-ada, vllm 0.27.1 =====
UTC 2026-11-30 00:53:20
state: booting (load 2 of 8)

----- journal -----
2026-11-30T00:53:20.250Z engine: started  [pid=7]

----- GPU memory (nvidia-smi) -----
GPU 0: 41234 of 46068 MiB used

----- engine on port 18081 -----
Running: 2 reqs, Waiting: 1 reqs, KV cache usage: 31.7%

----- end of the engine's log -----
engine says

----- end of the bridge's log -----
bridge says
"""


def test_an_engine_that_does_not_answer_and_a_pod_without_gpu_are_said() -> None:
    for counters, words in ((None, "does not answer"), (Counters(), "publishes no counters")):
        text = document(0.0, SUBJECT, [], "", counters, "", "", Redactor([]))
        assert words in text
        assert "no GPU is seen" in text


def test_no_secret_in_any_part() -> None:
    secret = "s3cret-value"
    entry = {**ENTRY, "message": secret, "x": {"y": secret}}
    subject = Subject(secret, secret, secret, secret, secret, 1)
    text = document(0.0, subject, [entry], secret, None, f"Bearer {secret}", f"{secret[:5]}\n{secret[5:]}", Redactor([secret]))
    assert secret not in text
    assert text.count(MASK) >= 9


def test_ends_of_logs_are_redacted_before_they_are_cut(tmp_path: Path) -> None:
    path, secret = tmp_path / "log", "s3cret-value-of-some-length"
    redactor = Redactor([secret])
    for shift in range(60):
        path.write_text("x" * 5000 + "\n" + secret + "\n" + secret[:9] + "\n" + secret[9:] + "\n" + "y" * (90 + shift) + "\n")
        text = end_of(path, 150, redactor)
        assert len(text.encode()) <= 150
        assert not any(secret[at:at + 9] in text for at in range(len(secret) - 8))
        assert text.endswith("y\n")


def test_probes_do_not_crowd_out_what_happened(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("what happened\n" + 'INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK\n' * 50)
    assert end_of(path, 200, Redactor([])) == "what happened\n"
    assert end_of(tmp_path / "none", 200, Redactor([])) == ""


def test_sizes_are_those_of_the_source_documents() -> None:
    assert (JOURNAL_BYTES, ENGINE_BYTES, BRIDGE_BYTES) == (25_000, 60_000, 20_000)
    entries = [{**ENTRY, "n": n} for n in range(2000)]
    text = document(0.0, SUBJECT, entries, "", None, "", "", Redactor([]))
    assert 24_000 < len(text) < 27_000
    assert "[pid=7 n=1999]" in text


def test_names_in_the_repository_cannot_leave_their_folder() -> None:
    assert path_in_repo("abc123") == "state/abc123.log"
    assert path_in_repo("../x/y", fatal=True) == "state/fatal-.._x_y.log"
    assert path_in_repo("") == "state/pod.log"


def test_two_documents_that_differ_in_the_hour_alone_are_one() -> None:
    one, two = (document(now, SUBJECT, [ENTRY], "", None, "UTC in a log\n", "", Redactor([])) for now in (0.0, 99.0))
    assert one != two
    assert fingerprint(one) == fingerprint(two)
    assert fingerprint(one) != fingerprint(one + "x")
