"""`python -m tests.faults [--only PATTERN] [--list] [--without-engine]`: the campaign. Exit code 1 where a case did not go as it must."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults import report
from tests.faults.campaign import ENDED, Group, Result, as_json, play
from tests.faults.catalogue import every_group, real_groups, side_groups, toy_lanes

BEGAN = time.monotonic()
# Bounds the wait for the side lane's engine before the main lane begins: two engines that start at once are slower than one after the other.
SIDE_START_S = 240.0
_LOCK = threading.Lock()
LANE = "lane "


def tell(lane: str) -> Callable[[str], None]:
    """Prints lines of one lane as they come."""
    def told(text: str) -> None:
        with _LOCK:
            print(f"[{time.monotonic() - BEGAN:5.0f} s] {lane}: {text}", flush=True)

    return told


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of one campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", default="", help="a pattern: cases whose name has it")
    parser.add_argument("--list", action="store_true", help="name the cases and play none")
    parser.add_argument("--without-engine", action="store_true", help="only what needs no real engine")
    parser.add_argument("--json", type=Path, default=report.DOCUMENT, help="where the results go")
    parser.add_argument("--no-page", action="store_true", help="leave docs/reliability.md as it is, as a campaign does that found a fault or did not play all")
    options = parser.parse_args(words)
    if options.list:
        print("\n".join(f"{group.section}: {case.name} ({group.player})" for group in every_group() for case in group.cases))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results = run(lambda name: re.search(options.only, name) is not None, with_engine=not options.without_engine)
    except KeyboardInterrupt:
        return 130
    facts = {"date": datetime.date.today().isoformat(), "machine": machine(), "seconds": round(time.monotonic() - BEGAN)}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(as_json(results, facts))
    bad = [result for result in results if result.problems]
    if not (bad or options.only or options.without_engine or options.no_page):
        report.write_page(results, facts)
    skipped = [result for result in results if result.skipped]
    tell("done")(f"{len(results)} cases, {len(bad)} failed, {len(skipped)} skipped; {options.json}")
    return 1 if bad or not results else 0


def run(wanted: Callable[[str], bool], *, with_engine: bool = True) -> list[Result]:
    """Everything. In the side lane minutes pass in which a watchdog waits for proof, and the lanes of the toy wait most of the time, too;
    what a real engine does to clients is measured when the toys are done."""
    found: dict[str, list[Result]] = {}
    opened = threading.Event()

    def lane(name: str, groups: Sequence[Group[Any]]) -> threading.Thread:
        def played() -> None:
            for group in groups:
                found.setdefault(name, []).extend(play(group, wanted, tell(name), opened if name == "side" else None))
            if name == "side":
                opened.set()

        thread = threading.Thread(target=played, name=f"{LANE}{name}")
        thread.start()
        return thread

    side = lane("side", side_groups() if with_engine else [])
    try:
        opened.wait(SIDE_START_S)
        _ended(*(lane(f"toy {number}", groups) for number, groups in enumerate(toy_lanes(), 1)))
        _ended(lane("main", real_groups() if with_engine else []), side)
    except KeyboardInterrupt:
        tell("done")("ended; the cases under way go to their end, so that nothing is left of them")
        ENDED.set()
        _ended(*(thread for thread in threading.enumerate() if thread.name.startswith(LANE)))
        raise
    return once_more([result for name in sorted(found, reverse=True) for result in found[name]], every_group())


def once_more(results: list[Result], groups: Sequence[Group[Any]]) -> list[Result]:
    """Each case that failed is played again with the machine to itself: what fails only beside other work is noted, and what fails
    twice is a fault."""
    again = {_key(result) for result in results if result.problems}
    for group in groups:
        for second in play(group, lambda name, group=group: (group.section, group.player, name) in again, tell("again")):  # type: ignore[misc]
            at = next(i for i, result in enumerate(results) if _key(result) == _key(second))
            second.notes.append(f"failed at first, beside other cases: {'; '.join(results[at].problems)}")
            results[at] = second
    return results


def _key(result: Result) -> tuple[str, str, str]:
    return result.section, result.player, result.name


def _ended(*threads: threading.Thread) -> None:
    """Wait for lanes. Not by `join`: interrupted, CPython 3.11 then takes the thread for ended."""
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)


def machine() -> str:
    """The machine in words, with what else it is doing."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()}), Python {platform.python_version()}, load average {load:.1f} at the end"


if __name__ == "__main__":
    sys.exit(main())
