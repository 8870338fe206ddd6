"""`python -m pod.hub download|get|exists|upload ...`: one transfer, told as JSON lines on standard output.

Lines have an "event": `progress` and `retry` while it goes on, and last `result`, whose "kind" is `ok` or says what failed:
gated, bad-token, not-found, no-room, offline, too-big, error. Exit code 0 for ok, 1 otherwise, 143 after TERM. What
huggingface_hub itself says goes to standard error. The token is taken from HF_TOKEN and cannot be given as an argument.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pod.hub import transfer
from pod.hub.failures import Failure

_said = threading.Lock()


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one transfer."""
    options = _parser().parse_args(arguments)
    result = _result(options)
    _say({"event": "result", **result})
    return 0 if result["kind"] == "ok" else 1


def _result(options: argparse.Namespace) -> dict[str, Any]:
    if options.command == "download":
        return transfer.download(
            options.repo, options.revision, options.cache, _say, options.only, options.reserve, stalled=_end_of_a_hung_download
        )
    if options.command == "get":
        return transfer.get(options.repo, options.path, options.target, options.type, options.revision, options.max_bytes)
    if options.command == "exists":
        return transfer.exists(options.repo, options.path, options.type)
    return transfer.upload(options.repo, options.path, options.source, options.type, options.message, options.create)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pod.hub", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    download = commands.add_parser("download", help="bring a model repository into the cache")
    download.add_argument("--cache", type=Path, required=True, help="the cache's folder, for instance ~/.cache/huggingface/hub")
    download.add_argument("--only", action="append", default=[], metavar="PATTERN", help="just files that match; may be repeated")
    download.add_argument("--reserve", type=int, default=0, metavar="BYTES", help="disk that must stay free")
    get = commands.add_parser("get", help="fetch one file")
    get.add_argument("--target", type=Path, required=True)
    get.add_argument("--max-bytes", type=int, default=None)
    exists = commands.add_parser("exists", help="ask whether a file is there")
    upload = commands.add_parser("upload", help="put one file")
    upload.add_argument("--source", type=Path, required=True)
    upload.add_argument("--message", default="")
    upload.add_argument("--create", action="store_true", help="make a private repository where there is none")
    for command in (download, get, exists, upload):
        command.add_argument("--repo", required=True, metavar="OWNER/NAME")
    for command in (download, get):
        command.add_argument("--revision", default=None, metavar="COMMIT")
    for command in (get, exists, upload):
        command.add_argument("--path", required=True, help="the file in the repository")
        command.add_argument("--type", choices=("model", "dataset"), default="model", help="kind of repository")
    return parser


def _end_of_a_hung_download(seconds: float) -> None:
    """The library's threads cannot be stopped from outside, so the process ends; what is on disk stays for the next one."""
    failure = Failure(
        "offline", f"the download has brought no byte for {seconds:.0f} s", "look at the pod's network; it is tried again", may_pass=True
    )
    _say({"event": "result", **failure.as_json()})
    os._exit(1)


def _say(line: dict[str, Any]) -> None:
    with _said:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
