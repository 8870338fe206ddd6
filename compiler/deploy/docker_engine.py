"""The way to a Docker engine: the one that DOCKER_HOST names, or the one on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from compiler.deploy.failures import DockerUnavailable

# The first question to the engine: it runs on this machine or close by.
CONNECT_TIMEOUT_S = 20


def engine_client(timeout_s: int = CONNECT_TIMEOUT_S) -> Any:
    """A client of the engine, whose version was asked for. Raises DockerUnavailable."""
    # docker takes 160 ms to import, which only commands that need an engine should pay.
    import docker  # type: ignore[import-untyped,unused-ignore]
    from docker.errors import DockerException  # type: ignore[import-untyped,unused-ignore]
    from docker.utils import kwargs_from_env  # type: ignore[import-untyped,unused-ignore]
    from requests.exceptions import RequestException

    try:
        return docker.APIClient(version="auto", timeout=timeout_s, **kwargs_from_env())
    except (DockerException, RequestException, OSError, ValueError) as error:
        raise _unavailable(error) from error


@contextlib.contextmanager
def engine() -> Iterator[Any]:
    """A client that is closed afterwards. Raises DockerUnavailable."""
    client = engine_client()
    try:
        yield client
    finally:
        client.close()


def _unavailable(error: Exception) -> DockerUnavailable:
    """No engine: whether it is missing, stopped or closed to this user decides what to do."""
    text = str(error)
    address = os.environ.get("DOCKER_HOST") or "the default socket"
    if "Permission denied" in text or "PermissionError" in text:
        fix = "Add yourself to the group `docker` and log in again, or name another engine in DOCKER_HOST."
    elif "No such file" in text or "FileNotFoundError" in text:
        fix = (
            "Install and start Docker; an engine with another socket (Docker Desktop, Colima, rootless) must be named "
            "in DOCKER_HOST, and `docker context inspect` shows its address."
        )
    else:
        fix = "Start the engine, and look at DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."
    return DockerUnavailable(
        f"no Docker engine answers at {address}", f"{text}\nOnly what runs in Docker needs one: `make build` does all the rest without.", fix
    )
