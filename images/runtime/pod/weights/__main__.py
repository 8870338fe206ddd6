"""`python -m pod.weights --cache DIR`: bring what standard input lists, a JSON list of a manifest's `fetch` entries, to this disk.

JSON lines as of `python -m pod.hub`, each progress with its "repo"; the last one is the result. Exit code 0 for ok, 1
otherwise. Huggingface_hub is loaded only in the children, which share this process's group.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pod.contract import Fetch
from pod.hub.child import Progress, Retry
from pod.strict_json import ShapeError, decoded, parsed
from pod.weights.download import bring

BAD_INPUT = 65


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one call."""
    parser = argparse.ArgumentParser(
        prog="python -m pod.weights", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="the Hub cache's folder")
    options = parser.parse_args(arguments)
    try:
        listed = parsed(sys.stdin.buffer.read())
        fetches = [decoded(Fetch, entry) for entry in (listed if isinstance(listed, list) else [listed])]
    except ShapeError as error:
        print(f"standard input: {error}", file=sys.stderr)
        return BAD_INPUT
    outcome = bring(fetches, options.cache, os.environ, _tell)
    _say(
        {
            **outcome.facts,
            "event": "result",
            "kind": outcome.kind,
            "detail": outcome.detail,
            "fix": outcome.fix,
            "may_pass": outcome.may_pass,
        }
    )
    return 0 if outcome.is_ok else 1


def _tell(repo: str, line: Progress | Retry) -> None:
    _say({"event": "progress" if isinstance(line, Progress) else "retry", "repo": repo, **dataclasses.asdict(line)})


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
