"""What the bridge costs, and whether it keeps still: a scripted engine, a bridge as its own process, and clients.

`python -m tests.bench.bridge cost`    CPU microseconds a streamed token, as fast as they come and paced, in each mode
`python -m tests.bench.bridge idle`    CPU and memory of 1,000 open streams into which only pings go
`python -m tests.bench.bridge soak`    64 clients of all kinds for a while; ends with 1 where memory or descriptors grow
`python -m tests.bench.bridge aborts`  10,000 streams that their clients break off; ends with 1 where one leaves something

Runs on Linux, and needs what `podwright[bridge]` installs.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time

from tests.bench.bridge_parts import STREAMS, bridge, read_stream, request, serve_engine
from tests.bench.bridge_soak import aborts, soak

PACE = 50.0  # tokens a second of one stream, as a GPU with many sequences gives them


async def cost() -> int:
    """Prints CPU time a token; 0."""
    for mode in ("translate", "native", "keepalive"):
        for name, pace, tokens, rounds in (("as fast as they come", 0.0, 500, 6), ("paced", PACE, 250, 1)):
            async with bridge(await serve_engine(tokens, pace), "--mode", mode) as (process, port):
                await read_stream(port, 1)
                before = process.cpu_s
                counts = await asyncio.gather(*(read_stream(port, rounds) for _ in range(STREAMS)))
                assert sum(counts) == STREAMS * rounds * tokens, (sum(counts), STREAMS * rounds * tokens)
                each = 1e6 * (process.cpu_s - before) / sum(counts)
                print(f"{mode:10} {name:21} {each:6.1f} us of CPU a token, {process.memory_mib:.0f} MiB")
    return 0


async def idle(seconds: float) -> int:
    """Prints the share of a core that open streams take; 0."""
    async with bridge(await serve_engine(1, -1.0)) as (process, port):
        writers = []
        for i in range(1000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request())
            writers.append((reader, writer))
            if i % 50 == 49:
                await asyncio.gather(*(reader.readuntil(b"text_delta") for reader, _ in writers[-50:]))
        before, begun = process.cpu_s, time.monotonic()
        await asyncio.sleep(seconds)
        share = 100 * (process.cpu_s - before) / (time.monotonic() - begun)
        print(f"1000 open streams: {share:.2f} % of a core, {process.memory_mib:.0f} MiB")
        for _, writer in writers:
            writer.close()
    return 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "idle", "soak", "aborts"))
    parser.add_argument("--seconds", type=float, default=45.0, help="of idle and soak (%(default)g)")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 14)), hard))
    work = {"cost": cost, "idle": lambda: idle(options.seconds), "soak": lambda: soak(options.seconds), "aborts": aborts}[options.what]
    return asyncio.run(work())


if __name__ == "__main__":
    sys.exit(main())
