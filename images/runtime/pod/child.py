"""One child in its own process group: started, watched, stopped whole, and reaped together with its orphans."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

# Bounds how long an engine may take to finish after TERM. vLLM frees its GPU memory in it; the source deployments used the same.
STOP_GRACE_S = 20.0
# Bounds how long members of a group that were killed may take to disappear; only an uninterruptible system call takes longer.
REAP_S = 5.0
_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

Log = Callable[[str], None]


def exit_code_of_group(argv: Sequence[str], env: Mapping[str, str], log: Log, grace_s: float = STOP_GRACE_S) -> int:
    """Run `argv` until it ends and give its exit code (128 + n after signal n). Must be called from the main thread.

    TERM or INT to this process sends TERM to the child's whole group, and KILL after `grace_s` seconds or at a second
    signal. Whatever of the group outlives its leader is killed. Every ended child is reaped, so this may be PID 1.
    Raises OSError when the program cannot be started.
    """
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        # The child must not inherit the blocked mask: an engine that cannot see TERM would always need the KILL.
        process = subprocess.Popen(argv, env=dict(env), start_new_session=True,
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, old_mask))
        log(f"started process group {process.pid}")
        status = _status_when_ended(process.pid, log, grace_s)
        process.returncode = os.waitstatus_to_exitcode(status)
        _finish_group(process.pid, log)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _status_when_ended(leader: int, log: Log, grace_s: float) -> int:
    kill_at: float | None = None
    while True:
        status = _reaped(leader)
        if status is not None:
            return status
        left = None if kill_at is None else kill_at - time.monotonic()
        if left is not None and left <= 0:
            log(f"still there after TERM: KILL to group {leader}")
            _signal_group(leader, signal.SIGKILL)
            kill_at, left = None, None
        caught = signal.sigwaitinfo(_WATCHED) if left is None else signal.sigtimedwait(_WATCHED, left)
        if caught is None or caught.si_signo == signal.SIGCHLD:
            continue
        name = signal.Signals(caught.si_signo).name
        log(f"{name}: TERM to group {leader}" if kill_at is None else f"{name} again: no more patience")
        if kill_at is None:
            _signal_group(leader, signal.SIGTERM)
        kill_at = time.monotonic() + (grace_s if kill_at is None else 0.0)


def _reaped(leader: int) -> int | None:
    """Reap all that ended; the leader's wait status if it was among them."""
    found: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == leader:
                found = status
    return found


def _finish_group(leader: int, log: Log) -> None:
    if not _signal_group(leader, signal.SIGKILL):
        return
    log(f"killed what was left of group {leader}")
    deadline = time.monotonic() + REAP_S
    while time.monotonic() < deadline and _signal_group(leader, 0):
        _reaped(leader)
        time.sleep(0.02)


def _signal_group(leader: int, number: int) -> bool:
    """Send a signal to the group; False when it has no member left."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True
