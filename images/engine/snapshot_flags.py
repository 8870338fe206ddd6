"""Print what one vLLM release really accepts, as a JSON document that the compiler's rules read.

Run it with the interpreter of the release's own environment; it needs nothing but that release:

    python snapshot_flags.py > specs/engines/flags/vllm-<release>.json

Why from the parser: a release's documents name flags that are gone and omit flags that are there; its parser does neither.
No GPU is needed. Where the engine sees no card, the CUDA platform is put in place before the parser is built; a machine
without a driver needs a `libcuda.so.1` that knows no device on LD_LIBRARY_PATH (`.ci/real_vllm.sh` makes one).

The document, sorted, one flag a line so that a diff of two releases reads well. Keys that do not apply are left out.

`flags`        option -> `options` (every spelling), `hidden` (those that no help shows), `negative` (those that
               switch it off), `dest`, `kind` (store, store_true, boolean, optional_value, append, custom, help), `type` (int,
               float, str, json, config, json_or_str, human_int, human_int_or_auto), `nullable`, `choices`, `open_choices`
               (suggested; others are accepted),
               `checked_later` (the parser takes any text, the configuration these, in either case), `nargs`, `const`,
               `default`, `required`, `metavar`, `config` (the class behind a JSON value), `group`, `help` (first sentence),
               `deprecated`.
`configs`      class -> field -> `type`, `choices`, `default`, `config`; `unknown_keys` says whether others are refused.
`registries`   names that values of flags, or a checkpoint's own files, must come from.
`backends`     attention backend -> what its class says that it supports.
"""
from __future__ import annotations

import argparse
import dataclasses
import enum
import importlib
import platform
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

FORMAT = 1
PARSER_HOMES = ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.common.cli_args")
# Capabilities of the cards that one can rent or buy: Turing, A100, A40/3090, Ada, Hopper, B200, B300, workstation Blackwell.
CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))
ABSENT_CARD = (8, 9)
CONVERTERS = {
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_or_auto",
    "union_dict_and_str": "json_or_str",
    "loads": "json",
    "parse_dataclass": "config",
}
KINDS = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "_StoreFalseAction": "store_false",
    "_AppendAction": "append",
    "_HelpAction": "help",
    "BooleanOptionalAction": "boolean",
    "EnableDisableAction": "boolean",
}


def use_cuda_platform() -> str:
    """The name of the platform in force, after a stand-in for CUDA has taken the place of "none found".

    The parser's defaults are computed from the platform, and the engine refuses to compute them where it finds no device. The
    stand-in answers the few questions that modules ask about the card while they are imported.
    """
    import vllm.platforms as platforms

    if platforms.current_platform.device_type:
        return str(platforms.current_platform.device_type)
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Absent(NonNvmlCudaPlatform):
        """A CUDA platform without a card; Ada, since most kernels' modules import there."""

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*ABSENT_CARD)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "no card"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return 48 * 2**30

    platforms._current_platform = Absent()
    return f"cuda (no card; {'.'.join(map(str, ABSENT_CARD))} stands in)"


def engine_parser(with_help: bool = True) -> Any:
    """The release's own `vllm serve` parser. It leaves its help texts out unless `--help` is on the command line."""
    sys.argv = ["vllm", "serve", *(["--help=all"] if with_help else [])]
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for home in PARSER_HOMES:
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError as error:
            if error.name != home and not home.startswith(f"{error.name}."):
                raise
            continue
        return module.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    raise SystemExit(f"no `vllm serve` parser in {', '.join(PARSER_HOMES)}: this release moved it")


def jsonable(value: Any) -> Any:
    """A value as JSON holds it, with nothing that differs from run to run: addresses are cut, sets are sorted."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else repr(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((jsonable(item) for item in value), key=str)
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def first_sentence(text: str | None) -> str:
    """The first sentence of a help text, on one line."""
    flat = " ".join((text or "").replace("%%", "%").split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`\"'\[(-])", flat, maxsplit=1)[0]


def wrapped(converter: Callable[..., Any]) -> Iterable[Any]:
    """What a converter was built around: the values in its closure and its defaults."""
    for cell in getattr(converter, "__closure__", None) or ():
        yield cell.cell_contents
    yield from getattr(converter, "__defaults__", None) or ()


def described_type(converter: Any) -> dict[str, Any]:
    """`type`, `nullable` and the configuration class of an argparse `type=`; wrappers such as "or None" are looked through."""
    if converter is None or converter is str:
        return {"type": "str"}
    if isinstance(converter, type):
        return {"type": converter.__name__}
    name = getattr(converter, "__name__", "str")
    inner = list(wrapped(converter))
    if name in ("_optional_type", "_parse_type"):
        found = described_type(next((item for item in inner if callable(item)), None))
        return {**found, "nullable": True} if name == "_optional_type" else found
    found = {"type": CONVERTERS.get(name, "str")}
    config = next((item for item in inner if isinstance(item, type) and dataclasses.is_dataclass(item)), None)
    return {**found, "config": config} if config else found


def checked_later(dest: str) -> list[Any]:
    """The names that an enumeration behind a plain string allows: the parser takes any text, the configuration refuses it."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    hint = next((field.type for field in dataclasses.fields(AsyncEngineArgs) if field.name == dest), None)
    parts = [hint, *typing.get_args(hint)]
    found = next((part for part in parts if isinstance(part, type) and issubclass(part, enum.Enum)), ())
    return [jsonable(member) for member in found]


def kind_of(action: Any) -> str:
    """How an option takes its value. A bare option that may carry a value is a kind of its own."""
    if action.nargs == "?" and action.const is not None:
        return "optional_value"
    return KINDS.get(type(action).__name__, "custom")


def switched_off_by(action: Any, spellings: list[str]) -> list[str]:
    """The spellings of a boolean flag that set it to false, found by trying each: a release may pair `--no-x` or `--disable-x`."""
    found = []
    for option in spellings:
        namespace = argparse.Namespace()
        action(argparse.ArgumentParser(), namespace, None, option)
        found += [option] if getattr(namespace, action.dest) is False else []
    return found


def described_flag(action: Any, spellings: list[str], group: str, config: Any, deprecated: bool) -> dict[str, Any]:
    """One action as the snapshot's line for it."""
    kind = kind_of(action)
    about = {} if kind in ("boolean", "store_true", "store_false", "help") else described_type(action.type)
    config = config or about.pop("config", None)
    about.pop("config", None)
    line = {"options": spellings, "dest": action.dest, "kind": kind, **about}
    open_choices = action.metavar if isinstance(action.metavar, (list, tuple)) else None
    line |= {
        "hidden": [option for option in spellings if option not in action.option_strings] or None,
        "negative": switched_off_by(action, spellings) if kind == "boolean" else None,
        "choices": jsonable(list(action.choices)) if action.choices else None,
        "checked_later": None if action.choices else checked_later(action.dest) or None,
        "open_choices": jsonable(open_choices) if open_choices else None,
        "metavar": action.metavar if isinstance(action.metavar, str) else None,
        "nargs": action.nargs if kind in ("store", "append", "custom", "optional_value") else None,
        "const": jsonable(action.const) if kind == "optional_value" else None,
        "required": action.required or None,
        "config": config.__name__ if config else None,
        "deprecated": deprecated or getattr(action, "deprecated", False) or None,
        "group": group,
    }
    line = {key: value for key, value in line.items() if value is not None}
    return line | {"default": jsonable(action.default), "help": first_sentence(action.help)}


def behind_json(dest: str) -> Any:
    """The configuration class that a flag of plain JSON fills in later, such as `speculative_config`; None if there is none."""
    from vllm.config import VllmConfig

    hint = next((field.type for field in dataclasses.fields(VllmConfig) if field.name == dest), None)
    return next(iter(config_classes(hint)), None)


def config_classes(hint: Any) -> list[type]:
    """The configuration classes that a type hint names, at any depth, but for those that the engine fills in itself."""
    if "SkipValidation" in str(hint):
        return []
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return [hint]
    return [found for part in typing.get_args(hint) for found in config_classes(part)]


def literal_values(hint: Any) -> list[Any]:
    """The values of every `Literal` and enumeration within a type hint, flattened."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [member.name for member in hint]
    if typing.get_origin(hint) is typing.Literal:
        return [item for part in typing.get_args(hint) for item in (literal_values(part) or [part])]
    return [item for part in typing.get_args(hint) if part is not Any for item in literal_values(part)]


def type_text(hint: Any) -> str:
    """A type hint as a person writes it; the values of literals are listed under `choices` instead."""
    if hint is None or hint is types.NoneType:
        return "None"
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "Literal"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(type_text(part) for part in parts)
    if origin is typing.Annotated:
        return type_text(parts[0])
    if parts and origin is not None and not isinstance(parts[0], list):
        inside = ", ".join("..." if part is Ellipsis else type_text(part) for part in parts)
        return f"{getattr(origin, '__name__', str(origin))}[{inside}]"
    return getattr(hint, "__name__", str(hint))


def default_of(field: dataclasses.Field[Any]) -> Any:
    """A field's default, through pydantic's wrapper; a default made by a function is shown by that function's name."""
    value = field.default
    if hasattr(value, "default_factory") and hasattr(value, "annotation"):
        value = value.default if value.default_factory is None else value.default_factory
    if value is dataclasses.MISSING:
        value = field.default_factory
    if value is dataclasses.MISSING or repr(value) == "PydanticUndefined":
        return "required"
    if callable(value) and not dataclasses.is_dataclass(type(value)):
        return f"{getattr(value, '__name__', 'factory')}()"
    return jsonable(value)


def accepted_fields(config: type) -> list[dataclasses.Field[Any]]:
    """The fields that a JSON value may set: those that the engine keeps for itself are not among them."""
    return [
        field
        for field in dataclasses.fields(config)
        if field.init and getattr(field.default, "init", None) is not False and "SkipValidation" not in str(field.type)
    ]


def described_config(config: type) -> dict[str, Any]:
    """A configuration class: its fields, and whether it refuses other keys."""
    lines: dict[str, Any] = {}
    for field in accepted_fields(config):
        choices, inner = literal_values(field.type), config_classes(field.type)
        line: dict[str, Any] = {"type": type_text(field.type), "default": default_of(field)}
        line |= {"choices": choices} if choices else {}
        lines[field.name] = line | ({"config": inner[0].__name__} if inner else {})
    extra = getattr(config, "__pydantic_config__", {}).get("extra", "ignore")
    return {"unknown_keys": "refused" if extra == "forbid" else "kept" if extra == "allow" else "ignored", "fields": lines}


def with_nested(configs: Iterable[type]) -> dict[str, type]:
    """The given classes and all classes that their fields hold, by name."""
    known: dict[str, type] = {}
    waiting = list(configs)
    while waiting:
        config = waiting.pop()
        if config.__name__ not in known:
            known[config.__name__] = config
            waiting += [inner for field in accepted_fields(config) for inner in config_classes(field.type)]
    return known


def described_flags(parser: Any) -> tuple[dict[str, Any], dict[str, type]]:
    """Every action of the parser by its first long option, and the configuration classes behind the JSON ones."""
    marked = getattr(type(parser), "_deprecated", set())
    spellings: dict[int, list[str]] = {}
    for option, action in parser._option_string_actions.items():  # an action lists only those that the help shows
        spellings.setdefault(id(action), []).append(option)
    flags: dict[str, Any] = {}
    configs: list[type] = []
    for group in parser._action_groups:
        for action in group._group_actions:
            config = described_type(action.type).get("config") or behind_json(action.dest)
            configs += [config] if config else []
            name = next((option for option in action.option_strings if option.startswith("--")), action.dest)
            flags[name] = described_flag(action, spellings.get(id(action), []), group.title or "", config, action in marked)
    return flags, with_nested(configs)


def snapshot() -> dict[str, Any]:
    """The whole document."""
    device = use_cuda_platform()
    parser = engine_parser()
    flags, configs = described_flags(parser)
    import torch
    import transformers
    import vllm
    from snapshot_registries import backends, registries  # beside this file

    supported = backends(CAPABILITIES)  # first: quantization methods import kernels that break FlashInfer's import on no card
    release = re.split(r"[+]", vllm.__version__)[0]
    return {
        "format": FORMAT,
        "release": release,
        "flags_count": len(flags),
        "options_count": sum(len(flag["options"]) for flag in flags.values()),
        "taken_with": {
            "platform": device,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "vllm": vllm.__version__,
        },
        "abbreviations": bool(parser.allow_abbrev),
        "flags": flags,
        "configs": {name: described_config(config) for name, config in configs.items()},
        "registries": registries(),
        "backends": supported,
    }


def main() -> None:
    """Print the document to standard output; all that the engine itself prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    document = snapshot()
    from snapshot_registries import diffable

    out.write(diffable(document) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
