"""The meter of a download, and what errors mean."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any

import pytest
from pod.hub.failures import failure_of, shown
from pod.hub.progress import Meter


def test_a_download_without_a_byte_counts_as_hung_once() -> None:
    hung: list[float] = []
    seen = threading.Event()

    def stalled(seconds: float) -> None:
        hung.append(seconds)
        seen.set()

    with Meter(lambda: 5, lambda line: None, stalled, period_s=0.01, stall_s=0.05) as meter:
        meter.expect(100, 5)
        assert seen.wait(5)
        time.sleep(0.05)
    assert len(hung) == 1 and hung[0] >= 0.05


def test_a_slow_download_is_not_hung() -> None:
    hung: list[float] = []
    count = iter(range(10**9))
    with Meter(lambda: next(count), lambda line: None, hung.append, period_s=0.01, stall_s=0.1) as meter:
        meter.expect(10**9, 0)
        time.sleep(0.3)
    assert hung == []


def test_nothing_is_told_before_the_size_is_known_nor_twice() -> None:
    told: list[dict[str, Any]] = []
    with Meter(lambda: 0, told.append, period_s=0.01):
        time.sleep(0.03)
    assert told == []
    with pytest.raises(KeyError), Meter(lambda: 7, told.append, period_s=0.01) as meter:
        meter.expect(10, 3)
        time.sleep(0.05)
        raise KeyError
    assert [line["done_bytes"] for line in told] == [3], "a failed download does not end at its total"


def test_the_rate_is_of_the_last_seconds() -> None:
    told: list[dict[str, Any]] = []
    began = time.monotonic()
    with Meter(lambda: int((time.monotonic() - began) * (50 << 20)), told.append, period_s=0.02) as meter:
        meter.expect(1 << 40, 0)
        time.sleep(0.3)
    assert 40 < told[-2]["mib_s"] < 60


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_found_behind_other_errors(number: int) -> None:
    try:
        try:
            raise OSError(number, "full")
        except OSError as inner:
            raise RuntimeError("Data processing error") from inner
    except RuntimeError as error:
        assert failure_of(error, "a/b").kind == "no-room"


def test_a_full_disk_in_the_words_of_the_xet_client() -> None:
    assert failure_of(RuntimeError("Data processing error: IO Error: No space left on device (os error 28)"), "a/b").kind == "no-room"
    assert failure_of(RuntimeError("Data processing error: CAS service error : Reqwest Error"), "a/b").may_pass


def test_messages_hold_neither_token_nor_signed_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "a-token-of-another-shape")
    text = shown(ValueError("bad a-token-of-another-shape at https://cdn.example/x?Signature=abc&Key=1 with hf_abcdefghijkl\nsecond line"))
    assert text == "ValueError: bad ... at https://cdn.example/x?... with ..."


def test_an_error_of_its_own_is_not_tried_again() -> None:
    failure = failure_of(ZeroDivisionError("division by zero"), "a/b")
    assert failure.kind == "error" and not failure.may_pass and "ZeroDivisionError" in failure.detail
