"""Ask a release's real `vllm serve` parser whether it takes command lines. Runs inside that release's environment.

    LD_LIBRARY_PATH=<environment>/no-device <environment>/bin/python ask_engine.py < jobs.json

A job is `{"id", "argv"}` with what comes after `vllm serve`; other keys are ignored. One JSON line a job comes back:
`{"id", "ok", "error"}`. The parser is built once, in about 12 s; a job then takes milliseconds.

Stricter than the engine's parser in four ways, each of which hides a mistake until the pod is paid for: an abbreviated option is
refused, an option given twice is refused (the last one would win with a log line), keys of a plain JSON value must be fields of
the class that it fills in later (speculation's are not checked while parsing), and a tool or reasoning parser must be one that
the release registers (it would be refused when the server starts, after the weights are loaded).
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "images" / "engine"))

from snapshot_flags import accepted_fields, behind_json, engine_parser, use_cuda_platform


class Refused(Exception):
    """The parser's own words."""


def strict_parser() -> Any:
    """The release's parser, which raises what it would print before it leaves."""
    use_cuda_platform()
    parser = engine_parser(with_help=False)
    parser.allow_abbrev = False

    def refuse(message: str) -> None:
        raise Refused(message)

    parser.error = refuse
    return parser


def repeated(parser: Any, argv: list[str]) -> list[str]:
    """The options that a command line sets more than once, by whichever of their spellings; appending ones may repeat."""
    counts: dict[str, int] = {}
    for word in argv:
        action = parser._option_string_actions.get(word.split("=", 1)[0]) if word.startswith("-") else None
        if action is not None and not isinstance(action, argparse._AppendAction):
            counts[action.dest] = counts.get(action.dest, 0) + 1
    return sorted(dest for dest, count in counts.items() if count > 1)


def unregistered(namespace: Any) -> str | None:
    """What the server would refuse at its start among the parsers named; None if all is well."""
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    for dest, known in (("tool_call_parser", ToolParserManager), ("reasoning_parser", ReasoningParserManager)):
        name = getattr(namespace, dest, None)
        if name and name not in known.list_registered():
            return f"{dest} {name!r} is not registered: {', '.join(sorted(known.list_registered()))}"
    if getattr(namespace, "enable_auto_tool_choice", False) and not namespace.tool_call_parser:
        return "--enable-auto-tool-choice needs --tool-call-parser"
    return None


def unknown_keys(namespace: Any) -> str | None:
    """A key of a plain JSON value that the configuration class behind it does not have; None if there is none."""
    for dest, value in vars(namespace).items():
        config = behind_json(dest) if isinstance(value, dict) else None
        if config is not None and (unknown := sorted(set(value) - {field.name for field in accepted_fields(config)})):
            return f"{dest}: {config.__name__} has no {', '.join(unknown)}"
    return None


def refusal(parser: Any, argv: list[str]) -> str | None:
    """Why a command line would not do; None if it would."""
    if twice := repeated(parser, argv):
        return f"given more than once: {', '.join(twice)}"
    try:
        namespace = parser.parse_args(list(argv))
    except Refused as error:
        return str(error)
    except (SystemExit, ValueError, TypeError, AttributeError, argparse.ArgumentTypeError) as error:
        return f"{type(error).__name__}: {error}"
    if not (namespace.model_tag or namespace.config):
        return "names no model"
    return unknown_keys(namespace) or unregistered(namespace)


def main() -> None:
    """Answer the jobs on standard input; what the engine prints goes to standard error."""
    jobs = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    parser = strict_parser()
    for job in jobs:
        error = refusal(parser, job["argv"])
        out.write(json.dumps({"id": job["id"], "ok": error is None, "error": error}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
