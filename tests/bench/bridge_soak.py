"""Whether a bridge leaves anything behind: clients of all kinds for a long time, and many streams that are broken off."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from tests.bench.bridge_parts import DIE, IDLE_S, LIMIT, REFUSE, STREAMS, bridge, read_stream, request, serve_engine
from tests.bench.process import Process

TOKENS, PACE = 40, 100.0
# A process that has warmed up may gain fragments of its allocator, and no more: between the first and the last quarter of
# the time under load, and from the rest before to the rest after.
MAX_GROWTH_MIB = 6.0
# Longer than the engine leaves an idle connection open.
REST_S = IDLE_S + 2.0
# Each act of a client takes a second or so; on a machine that is busy with other things it may take many.
ACT_S = 60.0
ABORTS, AT_ONCE = 10_000, 50
Act = Callable[[int, random.Random], Coroutine[Any, Any, None]]


async def asked(port: int, data: bytes) -> bytes:
    """The whole answer on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
    writer.write(data.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
    answer = await reader.read(-1)
    writer.close()
    return answer


async def whole_streams(port: int, chance: random.Random) -> None:
    rounds = chance.randint(1, 3)
    assert await read_stream(port, rounds) == rounds * TOKENS


async def broken_off(port: int, chance: random.Random) -> None:
    path = chance.choice(("/v1/messages", "/v1/messages", "/v1/chat/completions"))
    await abort(port, request(path, stream=chance.random() < 0.9), chance.random() < 0.8, chance.random() * 0.3)


async def half_sent(port: int, chance: random.Random) -> None:
    data = request()
    await abort(port, data[: chance.randrange(len(data))], False, chance.random() * 0.1)


async def relayed(port: int, _: random.Random) -> None:
    assert (await asked(port, request("/v1/chat/completions"))).count(b"chatcmpl-1") == TOKENS


async def not_streamed(port: int, _: random.Random) -> None:
    assert b'"end_turn"' in await asked(port, request(stream=False))


async def counted(port: int, _: random.Random) -> None:
    assert b'"input_tokens":100' in (await asked(port, request("/v1/messages/count_tokens", stream=False))).replace(b" ", b"")


async def refused(port: int, _: random.Random) -> None:
    assert b"rate_limit_error" in await asked(port, request(prompt=REFUSE))


async def dying(port: int, _: random.Random) -> None:
    assert b"event: error" in await asked(port, request(prompt=DIE))


async def wrong(port: int, _: random.Random) -> None:
    assert b" 400 " in await asked(port, b"POST /v1/messages HTTP/1.1\r\nhost: bench\r\ncontent-length: 3\r\n\r\n{x}")


async def probed(port: int, _: random.Random) -> None:
    assert b" 200 " in await asked(port, b"GET /health HTTP/1.1\r\nhost: bench\r\n\r\n")


ACTS: dict[Act, int] = {whole_streams: 30, broken_off: 40, half_sent: 4, relayed: 6, not_streamed: 6, counted: 4, refused: 3, dying: 3, wrong: 2, probed: 2}


async def abort(port: int, data: bytes, wait: bool, seconds: float) -> None:
    """Sends, waits for the answer to begin or not, and breaks the connection without a farewell."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if wait:
        await reader.read(1000)
    await asyncio.sleep(seconds)
    writer.transport.abort()


async def load(port: int, seconds: float) -> Counter[str]:
    """What 64 clients did in this time."""
    done: Counter[str] = Counter()
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < until:
            act = chance.choices(list(ACTS), list(ACTS.values()))[0]
            await asyncio.wait_for(act(port, chance), ACT_S)
            done[act.__name__] += 1

    await asyncio.gather(*(one(number) for number in range(STREAMS)))
    return done


async def watched(process: Process, memory: list[float]) -> None:
    while True:
        await asyncio.sleep(1)
        memory.append(process.memory_mib)


async def soak(seconds: float) -> int:
    """Prints figures; 1 where memory or descriptors grew."""
    async with bridge(await serve_engine(TOKENS, PACE)) as (process, port):
        await load(port, min(30.0, seconds / 4))
        await asyncio.sleep(REST_S)
        rest, files, cpu, memory = process.memory_mib, process.descriptors, process.cpu_s, list[float]()
        watcher = asyncio.create_task(watched(process, memory))
        done = await load(port, seconds)
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
        await asyncio.sleep(REST_S)
        quarters = [statistics.median(memory[len(memory) * i // 4 : len(memory) * (i + 1) // 4]) for i in range(4)]
        grown, more = max(process.memory_mib - rest, quarters[3] - quarters[0]), process.descriptors - files
        print(f"{done.total()} acts of {STREAMS} clients in {seconds:g} s: {', '.join(f'{name} {count}' for name, count in done.most_common())}")
        print(f"resident MiB at rest {rest:.1f} before, {process.memory_mib:.1f} after; under load, medians of quarters: {', '.join(f'{one:.1f}' for one in quarters)}")
        print(f"descriptors at rest {files} before, {files + more} after; {100 * (process.cpu_s - cpu) / seconds:.0f} % of a core")
        return int(grown > MAX_GROWTH_MIB or more > 0)


async def aborts() -> int:
    """Prints figures; 1 where a stream that was broken off left memory or a descriptor."""
    async with bridge(await serve_engine(1, -1.0)) as (process, port):
        chance = random.Random(2)

        async def some(count: int) -> None:
            for _ in range(count // AT_ONCE):
                await asyncio.gather(*(abort(port, request(), chance.random() < 0.8, 0.0) for _ in range(AT_ONCE)))
            await asyncio.sleep(REST_S)

        await some(1000)
        memory, files, begun = process.memory_mib, process.descriptors, time.monotonic()
        await some(ABORTS)
        seconds, grown, more = time.monotonic() - begun - REST_S, process.memory_mib - memory, process.descriptors - files
        print(f"{ABORTS} streams broken off in {seconds:.0f} s: {memory:.1f} MiB {grown:+.1f}, descriptors {files} {more:+d}")
        return int(grown > MAX_GROWTH_MIB or more > 0)
