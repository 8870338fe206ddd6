"""How long to wait before asking a busy server again."""

from __future__ import annotations

import datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.deploy.retry import FIRST_PAUSE_S, pause_before

NOW = datetime.datetime(2026, 11, 29, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 4.0),
        ({"retry-after": "30"}, 30.0),
        ({"Retry-After": "0"}, FIRST_PAUSE_S),
        ({"Retry-After": "Sun, 29 Nov 2026 12:01:30 GMT"}, 90.0),
        ({"Retry-After": "Sun, 29 Nov 2026 12:01:30 -0000"}, 90.0),
        ({"Retry-After": "Sun, 29 Nov 2026 11:00:00 GMT"}, FIRST_PAUSE_S),
        ({"Retry-After": "soon"}, 4.0),
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({"RateLimit": '"api";r=0;t=55', "Retry-After": "9"}, 9.0),
        ({"RateLimit": '"api";r=0'}, 4.0),
    ],
)
def test_the_servers_wish_counts(headers: dict[str, str], seconds: float) -> None:
    assert pause_before(3, httpx.Headers(headers), NOW) == seconds


@given(st.integers(1, 4), st.text(max_size=40), st.text(max_size=40))
def test_no_header_breaks_it(attempt: int, retry_after: str, rate_limit: str) -> None:
    assert pause_before(attempt, {"Retry-After": retry_after, "RateLimit": rate_limit}, NOW) >= FIRST_PAUSE_S
