"""Whole-process timings of `podwright build`, beside what a Python process costs anyway, all from one run.

`python -m tests.bench.run` (`make bench`) prints the table and writes it into docs/benchmarks.md between its markers.
CPU time (user and system, of the process and its children) is what compares on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from compiler.load import SpecStore, data_root
from tests.runpod_stub import ENDPOINT_KEY, KEY, FakeClock, RunpodStub
from tests.unit.deploy.servers import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- begin figures -->\n", "<!-- end figures -->"
BYTECODE = Path(tempfile.gettempdir()) / f"podwright-bench-bytecode-{os.getpid()}"
_WARM: list[tuple[str, list[str]]] = []
MIB = 1 << 20
# On Linux a child's ru_maxrss starts at what its parent held when it forked, so the child tells its own high-water mark.
PEAK = "import atexit, os, sys; os.path.exists('/proc/self/status') and atexit.register(lambda: sys.stderr.write(open('/proc/self/status').read()))\n"
COMMAND = "from compiler.entry import main; main()"
SIZES = (250, 500, 1000)
PODS = 1000
RENTED = 'kind: profile\nsummary: One with an image that can be pulled.\nextends: nemotron-ada\ncontainer: {name: "registry.example.com/me/pod:1"}\n'
HEAD = f"""# Benchmarks

Whole processes, from the start of Python to its end. Written by `make bench`; every figure of a table is from one run on one machine.

{BEGIN}{END}
"""


@dataclass(frozen=True)
class Timing:
    """Medians over runs: seconds of wall and CPU, bytes of the largest resident set."""

    name: str
    wall_s: float
    cpu_s: float
    peak_bytes: int


def timed(name: str, code: str, args: list[str], runs: int, folder: Path = ROOT, **environ: str) -> Timing:
    """The median of `runs` runs of a Python process, after one that fills the bytecode cache. Raises RuntimeError when one fails."""
    if (code, args[:1]) not in _WARM:
        _WARM.append((code, args[:1]))
        _run(code, args, folder, environ)
    rows = [_run(code, args, folder, environ) for _ in range(runs)]
    return Timing(name, statistics.median(r[0] for r in rows), statistics.median(r[1] for r in rows), int(statistics.median(r[2] for r in rows)))


def _run(code: str, args: list[str], folder: Path, environ: dict[str, str]) -> tuple[float, float, int]:
    env = {**os.environ, **environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'images' / 'runtime'}", "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # A user's second run finds bytecode; so does every run but the first here.
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", PEAK + code, *args], env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    errors = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"{code} {args}: exit {child.returncode}\n{errors[-2000:]}")
    peak = re.search(r"^VmHWM:\s+([0-9]+) kB$", errors, re.MULTILINE)
    return wall, usage.ru_utime + usage.ru_stime, int(peak[1]) * 1024 if peak else usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def generated(folder: Path, count: int) -> None:
    """`count` profiles that each vary a shipped one."""
    parents = SpecStore([data_root() / "specs"]).names("profile")
    (folder / "profiles").mkdir(parents=True)
    for number in range(count):
        text = f"kind: profile\nsummary: Generated {number}.\nextends: {parents[number % len(parents)]}\nnotes: [Number {number}.]\n"
        (folder / "profiles" / f"generated-{number:04}.yaml").write_text(text, encoding="utf-8")


def measured(runs: int) -> list[Timing]:
    """All timings of one run of the benchmark, baselines first."""
    found = [
        timed("python: nothing", "pass", [], runs),
        timed("python: import yaml, pydantic, jinja2, typer", "import yaml, pydantic, jinja2, typer", [], runs),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found.append(timed("build one profile, unchanged", COMMAND, ["build", "nemotron-ada", "--out", str(folder / "warm")], runs))
        found.append(timed("build one profile, --check", COMMAND, ["build", "nemotron-ada", "--out", str(folder / "warm"), "--check"], runs))
        found.append(timed("lint one profile", COMMAND, ["lint", "nemotron-ada"], runs))
        fresh = [timed("build one profile, new", COMMAND, ["build", "nemotron-ada", "--out", str(folder / f"new-{i}")], 1) for i in range(runs)]
        found.append(_median("build one profile, new", fresh))
        everything = [timed("build all", COMMAND, ["build", "--all", "--out", str(folder / f"all-{i}")], 1) for i in range(runs)]
        count = len(SpecStore([data_root() / "specs"]).names("profile"))
        found.append(_median(f"build all {count} shipped profiles, new", everything))
        found += deploys(folder, runs)
        generated(folder / "specs", SIZES[-1])
        rows = [(size, _many(folder, size, turn)) for turn in range(2) for size in SIZES]  # Turn about, so that a busy spell hits all sizes.
        found += [min((t for of, t in rows if of == size), key=lambda t: t.cpu_s) for size in SIZES]
    return found


def deploys(folder: Path, runs: int) -> list[Timing]:
    """Commands that ask the provider, here one on loopback that answers at once: what they cost beside the network's own time."""
    stub = RunpodStub(FakeClock())
    body = {"name": "somebody-else", "gpu": {"id": stub.gpus[0].id, "count": 1}, "templateId": "t"}
    (folder / "rented" / "profiles").mkdir(parents=True)
    (folder / "rented" / "profiles" / "mine.yaml").write_text(RENTED, encoding="utf-8")
    with serving(stub):
        environ = {"RUNPOD_API_KEY": KEY, "PODWRIGHT_API_KEY": ENDPOINT_KEY, "PODWRIGHT_RUNPOD_URL": stub.url}
        found = [
            timed("deploy --dry-run", COMMAND, ["deploy", "mine", "--dry-run", "--unlocked", "--specs", str(folder / "rented")], runs, folder, **environ),
            timed("status, no pod", COMMAND, ["status"], runs, folder, **environ),
        ]
        for _ in range(PODS):
            stub.make(dict(body))
        return [*found, timed(f"status, {PODS:,} pods of others listed", COMMAND, ["status"], runs, folder, **environ)]


def _many(folder: Path, size: int, turn: int) -> Timing:
    names = [f"generated-{number:04}" for number in range(size)]
    return timed(f"build {size:,} generated profiles, new", COMMAND, ["build", *names, "--specs", str(folder / "specs"), "--out", str(folder / f"many-{size}-{turn}")], 1)


def _median(name: str, rows: list[Timing]) -> Timing:
    return Timing(name, statistics.median(r.wall_s for r in rows), statistics.median(r.cpu_s for r in rows), int(statistics.median(r.peak_bytes for r in rows)))


def table(rows: list[Timing], runs: int) -> str:
    """The figures as Markdown: medians, and each as a multiple of the imports that any such tool needs."""
    base = rows[1]
    lines = [f"| {t.name} | {t.wall_s:.3f} | {t.cpu_s:.3f} | {t.cpu_s / base.cpu_s:.2f} | {t.peak_bytes / MIB:.0f} |\n" for t in rows]
    first, last = rows[-len(SIZES)], rows[-1]
    growth = (last.cpu_s / first.cpu_s) / (SIZES[-1] / SIZES[0])
    facts = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}, {platform.system()}), medians of {runs} runs (the better of two of the generated ones)."
    return (
        f"{facts}\n\n| what | wall s | CPU s | CPU, imports = 1 | peak MiB |\n|---|---|---|---|---|\n{''.join(lines)}\n"
        f"Growth from {SIZES[0]} to {SIZES[-1]:,} generated profiles: {growth:.2f} times what linear would be.\n"
    )


def page(text: str, figures: str) -> str:
    """The page with the figures between its markers. Raises ValueError when it has none."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no markers for the figures")
    return head + begin + figures + end + tail


def main() -> int:
    """Measure, print, and write the page unless told not to."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--runs", type=int, default=7, help="Runs of each command; the median counts.")
    options.add_argument("--print-only", action="store_true", help="Leave docs/benchmarks.md as it is.")
    chosen = options.parse_args()
    try:
        figures = table(measured(chosen.runs), chosen.runs)
    finally:
        shutil.rmtree(BYTECODE, ignore_errors=True)
    print(figures)
    if not chosen.print_only:
        PAGE.write_text(page(PAGE.read_text("utf-8") if PAGE.exists() else HEAD, figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
