"""Ports on loopback: the wanted one, or the next that nobody listens on."""

from __future__ import annotations

import dataclasses
import socket

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


def chosen_ports(plan: Plan, wanted: int | None) -> Ports:
    """The plan's ports, each moved up where it is taken. Raises LocalRunFailed where the `wanted` endpoint port is taken."""
    if wanted is not None and not is_free(wanted):
        raise LocalRunFailed(
            f"port {wanted} is taken", "Another program listens on it.", f"Stop that program, or leave --port out: the next free port after {plan.network.endpoint_port} is then taken."
        )  # fmt: skip
    endpoint = wanted or free_from(plan.network.endpoint_port, set())
    engine = free_from(plan.network.engine_port, {endpoint})
    return Ports(endpoint, engine, free_from(STATUS_PORT, {endpoint, engine}))


def free_from(port: int, taken: set[int]) -> int:
    """The first free port from `port` on that is not in `taken`. Raises LocalRunFailed."""
    for number in range(port, min(port + TRIES, 65536)):
        if number not in taken and is_free(number):
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
