"""`python -m pod`: the program of a pod. `--manifest FILE check` reads a manifest, `run` is the pod's first process and stays until it
is told to end, `supervise` is what `run` starts and starts again, `status [--json]` asks a running one.

Exit codes: 0 all is well, or told to end and everything ended; 1 something outlived the end; 64 a variable cannot be used; 65 the
manifest is not valid; 66 it cannot be read; 69 nothing answers where the status should be; 75 (supervise) another runtime is to be
started; 76 the manifest was written for a later runtime. `run` with a manifest that it cannot use keeps the container open and says why.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pod import folders
from pod.contract import Manifest, ManifestError, NewerSchemaError
from pod.levers import LeverError, with_levers

OK, USAGE, BAD_MANIFEST, NO_MANIFEST, UNAVAILABLE, NEWER_SCHEMA = 0, 64, 65, 66, 69, 76
# Bounds the question for the status, which is answered from memory.
STATUS_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one call."""
    parser = argparse.ArgumentParser(prog="python -m pod", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="the manifest to work by; not for status")
    parser.add_argument("command", choices=("check", "run", "supervise", "status"))
    parser.add_argument("--json", action="store_true", help="status: the whole document")
    options = parser.parse_args(arguments)
    if options.command == "status":
        return status(os.environ, options.json)
    if options.manifest is None:
        parser.error("--manifest FILE is missing")
    if options.command == "supervise":
        return _supervise(options.manifest)
    if options.command == "run":
        return run(options.manifest, os.environ)
    manifest = _loaded(options.manifest)
    if isinstance(manifest, Manifest):
        print(summary(manifest))
        return OK
    return manifest[0]


def run(path: Path, environ: Mapping[str, str]) -> int:
    """The pod's first process: guardian of everything below."""
    from pod.guardian import become, say

    folder = folders.state_folder(environ)
    listener = None
    manifest = _loaded(path)
    if not isinstance(manifest, Manifest) and not folder.memory_file.exists():
        return _held(manifest[1])
    if isinstance(manifest, Manifest):
        try:
            bridge = with_levers(manifest, environ).manifest.bridge
            listener = None if bridge.mode == "off" else listening(bridge.host if bridge.api_key_env else "127.0.0.1", bridge.port).detach()
        except LeverError as error:
            say(str(error))
        except OSError as error:
            say(f"the endpoint's port cannot be opened: {error.strerror}; the bridge tries by itself")
    return become(path, environ, folder, listener)


def listening(host: str, port: int) -> socket.socket:
    """The endpoint's socket. Raises OSError when the address is taken."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(4096)
    except OSError:
        sock.close()
        raise
    return sock


def _held(cause: str) -> int:
    """A container that exits is started again in a loop while the rent runs, so it stays open and says why."""
    _log(f"error: {cause}; nothing is served, and the container stays open so that this can be read; SIGTERM ends it")
    wanted = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    signal.sigwait(wanted)
    return OK


def _supervise(path: Path) -> int:
    from pod.supervisor.supervise import supervise

    try:
        return supervise(path, os.environ)
    except (ManifestError, OSError) as error:
        return _failed(BAD_MANIFEST, f"{path}: {error}")


def _loaded(path: Path) -> Manifest | tuple[int, str]:
    """The manifest in a file, or the exit code and the message of what is wrong with it, which has been told."""
    try:
        return Manifest.from_bytes(path.read_bytes())
    except OSError as error:
        code, message = NO_MANIFEST, f"{path}: {error.strerror}"
    except NewerSchemaError as error:
        code, message = NEWER_SCHEMA, f"{path}: {error}; build a newer image and start a new pod"
    except ManifestError as error:
        code, message = BAD_MANIFEST, f"{path}: {error}"
    _failed(code, message)
    return code, message


def status(environ: Mapping[str, str], as_json: bool) -> int:
    """Print what the running supervisor says of itself."""
    from pod.supervisor.views import lines

    try:
        port = folders.status_port(environ)
        document = _asked(port)
    except ValueError as error:
        return _failed(USAGE, str(error))
    except (OSError, http.client.HTTPException) as error:
        return _failed(UNAVAILABLE, f"no supervisor answers on 127.0.0.1:{environ.get(folders.STATUS_PORT_ENV) or folders.DEFAULT_STATUS_PORT}: {error}")
    print(json.dumps(document, indent=2, ensure_ascii=False) if as_json else "\n".join(lines(document)))
    return OK


def _asked(port: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STATUS_S)
    try:
        connection.request("GET", "/status")
        document = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if not isinstance(document, dict) or "state" not in document:
        raise http.client.HTTPException("another program listens there")
    return document


def summary(manifest: Manifest) -> str:
    """What a manifest asks for, for a person: one fact a line."""
    engines = (manifest.engine, *(manifest.swap.others if manifest.swap else ()))
    follow = manifest.supervisor.follow
    lines = [f"profile    {manifest.profile} (podwright {manifest.compiler}, schema {manifest.schema_version})",
             f"sha256     {manifest.sha256()}",
             f"image      {manifest.pod.image}",
             f"gpus       {manifest.pod.gpus} x {manifest.pod.gpu_name}"]
    lines += [f"engine     {engine.name}: {engine.served_names[0]}, {engine.context_window:,} tokens, port {engine.launch.port}"
              for engine in engines]
    lines += [f"bridge     {manifest.bridge.mode}, port {manifest.bridge.port}",
              f"secrets    {', '.join(s.env for s in manifest.supervisor.secrets) or 'none'}",
              f"follows    {f'{follow.repo}/{follow.path} every {follow.poll_s:g} s' if follow else 'nothing'}"]
    return "\n".join(lines)


def _failed(code: int, message: str) -> int:
    _log(f"error: {message}")
    return code


def _log(message: str) -> None:
    with contextlib.suppress(OSError):  # a log whose disk is full
        print(f"[pod] {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
