"""`python -m pod.cache restore|publish`: one step of the compile cache. Standard input is a `Job` as JSON; the one line on
standard output is a `Stored`. Exit code 0 whatever became of the cache, 65 when standard input is not a `Job`.

A process of its own, because packing keeps a core busy and a supervisor must not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence

from pod.cache.store import Job, publish, restore
from pod.strict_json import ShapeError, decoded, parsed

BAD_INPUT = 65


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one step."""
    parser = argparse.ArgumentParser(prog="python -m pod.cache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("restore", "publish"))
    parser.add_argument("--cold-start-s", type=float, default=0.0, help="publish: seconds that the start took which compiled this")
    options = parser.parse_args(arguments)
    try:
        job = decoded(Job, parsed(sys.stdin.buffer.read()))
    except ShapeError as error:
        print(f"standard input: {error}", file=sys.stderr)
        return BAD_INPUT
    if options.command == "restore":
        stored = restore(job.place, job.seal, os.environ)
    else:
        stored = publish(job.place, job.seal, options.cold_start_s, os.environ)
    print(json.dumps({"event": "result", **dataclasses.asdict(stored)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
