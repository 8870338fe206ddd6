"""Clients that never stop asking: plain sockets, a stream each, and the truth about how every single answer ended."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Literal

Ending = Literal["served", "told", "ended", "broken", "refused", "failed", "hung"]
MEANING: dict[Ending, str] = {
    "served": "served", "told": "told to come again", "ended": "ended by an error event", "broken": "connection broken", "refused": "connection refused",
    "failed": "failed", "hung": "never answered",
}  # fmt: skip
KEY = "k3y-for-tests"
# Longer than the bridge may hold anybody in these pods: an answer that takes longer will not come.
HANGS_S = 400.0
# A client that was sent away comes again so soon, whatever it was told: it is here to see, not to be polite.
AGAIN_S = 0.2
# Besides all of 500 and above: what the official clients repeat by themselves.
_RETRYABLE = frozenset((408, 409, 429))


@dataclasses.dataclass(frozen=True)
class Call:
    """One request: when it began and ended on the monotonic clock, how, and the words of a failure."""

    began: float
    ended: float
    ending: Ending
    words: str = ""


class Clients:
    """`count` clients on one endpoint, in a thread of their own. Use as a context; leaving it waits for the answers under way."""

    def __init__(self, port: int, count: int = 3, *, model: str = "m", tokens: int = 8, key: str = KEY, pause_s: float = 0.05) -> None:
        self._port, self._count, self._key, self._pause_s = port, count, key, pause_s
        self._body = json.dumps({"model": model, "max_tokens": tokens, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
        self.calls: list[Call] = []
        self.under_way = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)

    def __enter__(self) -> Clients:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(HANGS_S + 10)

    def first_served(self, after: float) -> Call | None:
        """The first answer that a request got which began after a moment."""
        return min((c for c in list(self.calls) if c.began >= after and c.ending == "served"), key=lambda c: c.ended, default=None)

    async def _all(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self._count)))

    async def _client(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.under_way += 1
            ending, words = await self._asked()
            self.under_way -= 1
            self.calls.append(Call(began, time.monotonic(), ending, words))
            await asyncio.sleep(self._pause_s if ending == "served" else AGAIN_S)

    async def _asked(self) -> tuple[Ending, str]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            return "refused", str(error)
        try:
            writer.write(f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {self._key}\r\nanthropic-version: 2023-06-01\r\n"
                         f"content-type: application/json\r\ncontent-length: {len(self._body)}\r\n\r\n".encode() + self._body)  # fmt: skip
            async with asyncio.timeout(HANGS_S):
                return judged(await _read(reader))
        except TimeoutError:
            return "hung", f"no end within {HANGS_S:.0f} s"
        except OSError as error:
            return "broken", str(error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of the answer, or of the connection."""
    data = b""
    while piece := await reader.read(1 << 16):
        data += piece
        if b"event: message_stop" in data or b"event: error" in data:
            break
    return data


def judged(data: bytes) -> tuple[Ending, str]:
    """How an answer ended. One that just stops is broken, however much of it came."""
    head, _, body = data.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0
    if b"event: message_stop" in body:
        return "served", ""
    if b"event: error" in body:
        return "ended", body[body.index(b"event: error") :].decode("utf-8", "replace")[:300]
    if status in (0, 200):
        return "broken", f"{len(body)} bytes and then nothing"
    may_repeat = (status in _RETRYABLE or status >= 500) and b"x-should-retry: false" not in head.lower()
    return "told" if may_repeat else "failed", f"{status}: {body.decode('utf-8', 'replace')[:300]}"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a crowd of clients saw: how many answers ended how, and the longest wait for one that was served, in seconds."""

    counts: dict[Ending, int]
    longest_s: float
    words: tuple[str, ...]

    @classmethod
    def of(cls, calls: Iterable[Call]) -> Seen:
        """The sum of many calls."""
        listed = list(calls)
        served = [call.ended - call.began for call in listed if call.ending == "served"]
        words = tuple(dict.fromkeys(call.words for call in listed if call.words))
        return cls(dict(collections.Counter(call.ending for call in listed)), round(max(served, default=0.0), 2), words[:3])

    def but(self, kinds: Iterable[Ending]) -> dict[Ending, int]:
        """Endings other than the given ones."""
        return {ending: count for ending, count in self.counts.items() if ending not in kinds}

    def __str__(self) -> str:
        rest = [f"{count:,} {MEANING[ending]}" for ending, count in sorted(self.counts.items()) if ending != "served"]
        served = self.counts.get("served", 0)
        told = f"{served:,} of {sum(self.counts.values()):,} served, the longest wait {self.longest_s:.1f} s" if served else "none served"
        return "; ".join((told, *rest))


def waited(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Return once something is so. Raises TimeoutError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)
