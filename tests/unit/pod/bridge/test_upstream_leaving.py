"""Callers that leave at any moment take nobody else's connection with them."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from pod.bridge.upstream import Upstream

from tests.unit.pod.bridge.net import Engine, run


@pytest.mark.parametrize("seed", range(3))
def test_callers_that_leave_at_any_moment(seed: int) -> None:
    """Also in the moment in which their answer has come and its connection is kept, or given to the next caller."""
    chance = random.Random(seed)

    async def one(pool: Upstream) -> None:
        asking = asyncio.create_task(pool.send("GET", "/health"))
        if chance.random() < 0.5:
            for _ in range(chance.randint(0, 30)):
                await asyncio.sleep(0)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await asking).cancel()
        else:
            assert await (await asyncio.wait_for(asking, 5)).read() == b"ok"

    async def many(pool: Upstream) -> None:
        for _ in range(60):
            await one(pool)

    async def work() -> None:
        engine = Engine(health=lambda peer: peer.whole(200, b"ok"))
        pool = Upstream(f"http://127.0.0.1:{await engine.start()}")
        await asyncio.gather(*(many(pool) for _ in range(16)))
        assert pool.active == 0
        pool.close()
        engine.close()

    run(work())
