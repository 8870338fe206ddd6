"""Would the installed engine take this command line? Run by the engine's own Python, with the engine's environment:

    /opt/podwright/engine-python argv_check.py < argv.json

Standard input is the whole argv as a JSON list; one JSON line comes back on standard output: `{"ok": true}` or
`{"ok": false, "error": "..."}`, where the error is the engine's own words. Where the argv is none of `vllm serve`, it says
`{"ok": true, "note": "..."}`: nothing was checked.

The engine's own `main` runs, up to the point where it would begin to serve, so whatever this release checks before it loads a
model is checked. Added is one thing that it finds out minutes later: a tool or reasoning parser that it does not have. No GPU is
used; where there is none, a stand-in answers for the card. Standard library only, for Python 3.10 and later, and nothing of `pod`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

# An error can quote a whole argv; its beginning says what is wrong.
ERROR_LENGTH = 800


class Refused(Exception):
    """The engine's words on a command line that it does not take."""


class Taken(Exception):
    """The engine was about to serve; `namespace` is what it understood."""

    def __init__(self, namespace: Any) -> None:
        super().__init__("taken")
        self.namespace = namespace


def verdict(argv: Any) -> dict[str, Any]:
    """The answer for one argv, as the module's head says."""
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return {"ok": False, "error": "the argv must be a JSON list of texts"}
    if Path(argv[0]).name != "vllm" or argv[1:2] != ["serve"]:
        return {"ok": True, "note": "not checked: this is no command line of `vllm serve`"}
    try:
        parsed = _parsed(argv)
        problem = None if parsed is None else _unregistered(parsed)
    except Refused as refusal:
        problem = str(refusal)
    except ImportError as error:
        problem = f"the engine cannot be imported: {error}"
    except (Exception, SystemExit) as error:  # Validation inside the engine raises what it likes.
        problem = f"{type(error).__name__}: {error}"
    if problem is None:
        return {"ok": True}
    return {"ok": False, "error": " ".join(problem.split())[:ERROR_LENGTH]}


def _parsed(argv: list[str]) -> Any:
    """What the engine understood; None where it only printed its help. Raises Refused, or what the engine raises."""
    import argparse

    def refuse(self: argparse.ArgumentParser, message: str) -> NoReturn:
        raise Refused(message)

    def take(namespace: Any) -> NoReturn:
        raise Taken(namespace)

    argparse.ArgumentParser.error = refuse  # type: ignore[method-assign]  # the original prints it among the help and leaves
    sys.argv = list(argv)
    _stand_in_for_a_card()
    _engine("entrypoints.cli.serve").ServeSubcommand.cmd = staticmethod(take)
    try:
        _engine("entrypoints.cli.main").main()
    except Taken as taken:
        if not (taken.namespace.model_tag or taken.namespace.config):
            raise Refused("names no model") from None
        return taken.namespace
    return None


def _engine(module: str) -> Any:
    return importlib.import_module(f"vllm.{module}")


def _stand_in_for_a_card() -> None:
    """Defaults of the command line depend on the platform, and the engine refuses to have them where it finds no device.

    The stand-in answers without a driver, for the oldest card for which all of the engine's modules import.
    """
    platforms = _engine("platforms")
    if platforms.current_platform.device_type:
        return
    capability = _engine("platforms.interface").DeviceCapability(8, 9)
    answers: dict[str, Any] = {"get_device_capability": capability, "get_device_name": "none", "get_device_total_memory": 48 << 30}
    methods = {name: classmethod(lambda cls, device_id=0, answer=answer: answer) for name, answer in answers.items()}
    platforms._current_platform = type("NoCard", (_engine("platforms.cuda").NonNvmlCudaPlatform,), methods)()


def _unregistered(namespace: Any) -> str | None:
    """A named tool or reasoning parser that this release lacks; None if there is none, or the release keeps them elsewhere."""
    if getattr(namespace, "tool_parser_plugin", None) or getattr(namespace, "reasoning_parser_plugin", None):
        return None
    for option, module, manager in (("tool_call_parser", "tool_parsers", "ToolParserManager"), ("reasoning_parser", "reasoning", "ReasoningParserManager")):
        name = getattr(namespace, option, None)
        try:
            known = sorted(getattr(_engine(module), manager).list_registered()) if name else []
        except (ImportError, AttributeError):
            continue
        if name and name not in known:
            return f"--{option.replace('_', '-')} {name}: this release has no such parser; it has {', '.join(known)}"
    return None


def main() -> None:
    """Read the argv, answer in one line, and keep everything that the engine prints away from standard output."""
    own = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != own]  # Our modules' names are not the engine's.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    try:
        answer = verdict(json.load(sys.stdin))
    except ValueError:
        answer = {"ok": False, "error": "standard input is no JSON"}
    os.write(answer_to, json.dumps(answer).encode() + b"\n")
    sys.stderr.flush()
    os._exit(0)  # The engine's modules leave threads behind; nothing of theirs is worth waiting for.


if __name__ == "__main__":
    main()
