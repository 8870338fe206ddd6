"""Ports on loopback: the wanted one, or the next that nobody listens on."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import socket
from pathlib import Path

from compiler.deploy.failures import LocalRunFailed
from compiler.plan import Plan

# How far from the wanted port a free one is looked for; a machine on which a hundred in a row are taken has another problem.
TRIES = 100
STATUS_PORT = 8079


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """Who listens where in this run."""

    endpoint: int
    engine: int
    status: int


class Reservations:
    """Ports that this command will use and nobody listens on yet: an engine takes half a minute to, and another command must not count on
    its port meanwhile. Files below the cache, locked as long as this process lives."""

    def __init__(self, cache: Path) -> None:
        self._folder, self._held = cache / "ports", dict[int, int]()

    def take(self, port: int) -> bool:
        """Whether the port is ours now. Raises OSError where the cache cannot be written."""
        if port in self._held:
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._held[port] = descriptor
        return True

    def release(self) -> None:
        """Give all of them back."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def chosen_ports(plan: Plan, wanted: int | None, reservations: Reservations) -> Ports:
    """The plan's ports, each moved up where it is taken, and reserved. Raises LocalRunFailed where the `wanted` endpoint port is taken."""
    check_wanted(plan, wanted)
    if wanted is not None and not reservations.take(wanted):
        raise _taken(plan, wanted, "Another podwright is about to listen on it.")
    endpoint = wanted or free_from(plan.network.endpoint_port, reservations)
    return Ports(endpoint, free_from(plan.network.engine_port, reservations), free_from(STATUS_PORT, reservations))


def check_wanted(plan: Plan, wanted: int | None) -> None:
    """Raises LocalRunFailed where somebody listens on the port that was asked for."""
    if wanted is not None and not is_free(wanted):
        raise _taken(plan, wanted, "Another program listens on it.")


def _taken(plan: Plan, port: int, why: str) -> LocalRunFailed:
    return LocalRunFailed(f"port {port} is taken", why, f"Stop that program, or leave --port out: the next free port from {plan.network.endpoint_port} on is then taken.")


def free_from(port: int, reservations: Reservations) -> int:
    """The first port from `port` on that nobody listens on or has reserved. Raises LocalRunFailed."""
    for number in range(port, min(port + TRIES, 65536)):
        if is_free(number) and reservations.take(number):
            return number
    raise LocalRunFailed(f"no free port from {port} on", f"The {TRIES} ports after it are taken, too.", "Stop what listens there, or give the profile another port.")


def is_free(port: int) -> bool:
    """Whether nobody on this machine listens on `port`, on whichever address: the bootstrap asks for no less."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("0.0.0.0", port))
            sock.listen(1)
        except OSError:
            return False
    return True
