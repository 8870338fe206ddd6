"""Run a release's own configuration phase over many command lines, for one named card, on a machine without one.

    FAKE_CARD="NVIDIA A40|8.6|46068|2" REAL_KERNELS=1 PYTHONPATH=<fakecard> LD_LIBRARY_PATH=<environment>/no-device \\
        <environment>/bin/python ask_config.py <fakecard>/ask.py < jobs.json

A job is `{"id", "model" (a folder with config.json), "argv" (flags only), "build" (default false)}`; one JSON line a job comes
back as it is answered: what the engine resolved, or its refusal in its own words. The engine is imported once and each job runs
in a fork of that, which saves fifteen seconds a job; a job that takes longer than its limit is ended and says so.
"""
from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
import time
from typing import Any

# A question takes 3 to 60 s after the import on two slow cores; four times the slowest seen.
SECONDS_A_JOB = 240.0
PORT_TAKEN = "EADDRINUSE"


def import_engine() -> None:
    """Load all that every job needs, once; the classes that a model's configuration needs are loaded by its own job."""
    import vllm.engine.arg_utils
    import vllm.entrypoints.openai.cli_args
    import vllm.model_executor.models.registry
    import vllm.v1.worker.gpu_model_runner  # noqa: F401


def answer_in_child(script: str, job: dict[str, Any], pipe: int) -> None:
    """Run the question's script with the job's command line, its standard output in the pipe; never returns."""
    os.dup2(pipe, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.argv = [script, *(["--build"] if job.get("build") else []), job["model"], *job["argv"], "--skip-tokenizer-init"]
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as error:  # the child must end here whatever the engine raised
        print(json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"[:700]}), flush=True)
    os._exit(0)


def last_json(text: str) -> dict[str, Any]:
    """The last line of a child's output that is a JSON object; the engine may print other lines before it."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {"ok": False, "error": f"no answer: {text[-300:]!r}"}


def read_all(pipe: int, deadline: float) -> tuple[str, bool]:
    """A pipe's text up to its end or the deadline, and whether the end came."""
    chunks: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        chunk = os.read(pipe, 65536)
        if not chunk:
            return b"".join(chunks).decode(errors="replace"), True
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace"), False


def ask(script: str, job: dict[str, Any]) -> dict[str, Any]:
    """One job's answer, from a fork of this process."""
    started = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        answer_in_child(script, job, writing)
    os.close(writing)
    text, ended = read_all(reading, started + SECONDS_A_JOB)
    os.close(reading)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    answer = last_json(text) if ended or "{" in text else {"ok": False, "error": f"no answer within {SECONDS_A_JOB:.0f} s"}
    return {"id": job["id"], "seconds": round(time.monotonic() - started, 1), **answer}


def main() -> None:
    """Answer the jobs on standard input."""
    jobs = json.load(sys.stdin)
    import_engine()
    for job in jobs:
        answer = ask(sys.argv[1], job)
        if PORT_TAKEN in str(answer.get("error")):  # building a model opens a port, chosen from the process id
            answer = ask(sys.argv[1], job)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
