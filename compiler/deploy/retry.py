"""When to ask a server again, and how long to wait before: one policy for the Hub and for registries."""

from __future__ import annotations

import datetime
import email.utils
import re
from collections.abc import Mapping

# One address that does not answer must not hold a command up: a handshake takes well under a second where there is a way.
CONNECT_TIMEOUT_S = 10.0
# The Hub lists a checkpoint of hundreds of files with their sizes in one answer, which can take several seconds.
READ_TIMEOUT_S = 30.0
# First question and three more: a hiccup of a few seconds passes, a broken server is reported within half a minute.
ATTEMPTS = 4
# Doubled after every attempt: 1, 2 and 4 s.
FIRST_PAUSE_S = 1.0
# A longer wait than this is the user's decision, not ours: the failure then says how long the server asked for.
LONGEST_PAUSE_S = 120.0

BUSY = frozenset({429, 500, 502, 503, 504})
_RESET_IN_SECONDS = re.compile(r"(?:^|;)\s*t=(\d{1,9})\s*(?:;|$)")


def pause_before(attempt: int, headers: Mapping[str, str], now: datetime.datetime) -> float:
    """Seconds to wait before attempt number `attempt + 1`; the server's own wish counts where it states one.

    Reads `Retry-After` (seconds or an HTTP date) and the `t=` of a `RateLimit` field, which the Hub sends. `headers` must
    not care about the case of its keys. The answer may be above `LONGEST_PAUSE_S`: the caller then gives up.
    """
    asked = _seconds(headers.get("Retry-After", ""), now)
    if asked is None:
        reset = _RESET_IN_SECONDS.search(headers.get("RateLimit", ""))
        asked = float(reset[1]) if reset else None
    planned: float = FIRST_PAUSE_S * 2.0 ** (attempt - 1)
    return planned if asked is None else max(asked, FIRST_PAUSE_S)


def _seconds(text: str, now: datetime.datetime) -> float | None:
    """Seconds from now of a Retry-After value; None for one that says nothing."""
    if re.fullmatch(r"\d{1,9}", text.strip()):
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:  # RFC 9110: HTTP dates are UTC, whatever zone is left out.
        date = date.replace(tzinfo=datetime.UTC)
    return max(0.0, (date - now).total_seconds())
