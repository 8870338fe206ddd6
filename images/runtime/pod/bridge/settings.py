"""What a bridge works by: from a pod's manifest, or from the words of `podwright bridge` in front of any engine."""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from pod.contract import Bridge, Engine, Manifest

Mode = Literal["translate", "native", "keepalive"]

# The documents' budgets, in tokens; None lets the model think as long as it likes.
EFFORT_BUDGETS: dict[str, int | None] = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768, "max": None}
PING_S = 15.0
USAGE_S = 0.5
# The longest prefill in the documents' measurements lasted 539 s; three times that, rounded up, is an engine that died.
SILENCE_S = 1800.0
# The longest swap that was measured took 368 s, with a first compilation; a client that waits 15 minutes has waited long enough.
HOLD_S = 900.0
MAX_BODY = 64 << 20


class SettingsError(ValueError):
    """A setting that cannot be used; the message says which and why."""


@dataclasses.dataclass(frozen=True)
class Model:
    """One model behind the bridge. `names` are the engine's own, the first one what unknown names get; `aliases` further
    ones that clients may use and the engine does not know; `engine` is the supervisor's name for it, empty without a supervisor.

    `context_window` in tokens; None, as in `reasoning` and `multimodal`, where nobody said.
    """

    names: tuple[str, ...]
    upstream: str
    aliases: tuple[str, ...] = ()
    context_window: int | None = None
    reasoning: bool | None = None
    multimodal: bool | None = None
    architecture: str = ""
    engine: str = ""

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """What the model's chat template needs from an agent: Nemotron's answers nothing but reasoning without it."""
        return {"force_nonempty_content": True} if self.architecture.startswith("NemotronH") else {}

    @property
    def effort_levels(self) -> tuple[str, ...]:
        """The levels that the model itself knows, lowest first; empty where only budgets steer how long it thinks."""
        return ("low", "medium", "high") if self.architecture.startswith("GptOss") else ()


@dataclasses.dataclass(frozen=True)
class Settings:
    """Times in seconds, sizes in bytes, budgets and prompts in tokens.

    `usage_s` 0 sends no message_delta before the last. `thinking_budget` None: the engine is asked, and its refusal learnt.
    `keys` are (name, environment variable) pairs; none lets everybody in. `cors_origins` empty answers no foreign page.
    """

    models: tuple[Model, ...]
    mode: Mode = "translate"
    host: str = "127.0.0.1"
    port: int = 8080
    ping_s: float = PING_S
    usage_s: float = USAGE_S
    silence_s: float = SILENCE_S
    hold_s: float = HOLD_S
    effort_budgets: Mapping[str, int | None] = dataclasses.field(default_factory=lambda: dict(EFFORT_BUDGETS))
    thinking_budget: bool | None = None
    keys: tuple[tuple[str, str], ...] = ()
    guard: bool = False
    max_prompt_tokens: int | None = None
    max_body: int = MAX_BODY
    cors_origins: tuple[str, ...] = ()

    @property
    def bind_host(self) -> str:
        """Where to listen: without a key nobody but this machine may come, whatever `host` says."""
        return self.host if self.keys or is_loopback(self.host) else "127.0.0.1"


def from_manifest(manifest: Manifest) -> Settings:
    """The settings in a pod's manifest. Raises SettingsError where its bridge is off."""
    bridge = manifest.bridge
    if bridge.mode == "off":
        raise SettingsError("bridge.mode is off: the engine itself listens where clients come")
    engines = (manifest.engine, *(manifest.swap.others if manifest.swap else ()))
    return Settings(
        models=tuple(map(_model, engines)), mode=bridge.mode, host=bridge.host, port=bridge.port, ping_s=bridge.ping_s,
        usage_s=bridge.usage_s, effort_budgets=dict(bridge.effort_budgets), thinking_budget=bridge.thinking_budget_supported,
        keys=_keys(bridge), guard=bridge.guard, max_prompt_tokens=bridge.max_prompt_tokens,
    )  # fmt: skip


def _model(engine: Engine) -> Model:
    host = "127.0.0.1" if engine.launch.host in ("", "0.0.0.0", "::") else engine.launch.host
    return Model(
        engine.served_names, f"http://{host}:{engine.launch.port}", context_window=engine.context_window,
        reasoning=engine.reasoning, multimodal=engine.multimodal, architecture=engine.architecture,
        engine=engine.name,
    )  # fmt: skip


def _keys(bridge: Bridge) -> tuple[tuple[str, str], ...]:
    return ((bridge.api_key_env.lower(), bridge.api_key_env),) if bridge.api_key_env else ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `podwright bridge`."""
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT", help="where clients come (%(default)s)")
    parser.add_argument("--upstream", required=True, metavar="URL", help="the engine, for instance http://127.0.0.1:18081")
    parser.add_argument("--mode", choices=("translate", "native", "keepalive"), default="translate", help="(%(default)s)")
    parser.add_argument("--api-key-env", action="append", default=[], metavar="[CLIENT=]NAME",
                        help="variable with a key that clients may send; several times for several clients")  # fmt: skip
    parser.add_argument("--model", metavar="NAME", help="the engine's name for its model (asked for when absent)")
    parser.add_argument("--alias", action="append", default=[], metavar="NAME", help="a further name for it")
    parser.add_argument("--context-window", type=int, metavar="TOKENS", help="as served (asked for when absent)")
    parser.add_argument("--ping", type=float, default=PING_S, metavar="S", help="silence towards a client before a ping (%(default)g)")
    parser.add_argument(
        "--usage-interval", type=float, default=USAGE_S, metavar="S", help="between usage updates, 0 for one at the end (%(default)g)"
    )
    parser.add_argument(
        "--silence", type=float, default=SILENCE_S, metavar="S", help="silence of the engine before a request fails (%(default)g)"
    )
    parser.add_argument(
        "--hold", type=float, default=HOLD_S, metavar="S", help="how long clients wait for an engine that reloads or swaps (%(default)g)"
    )
    parser.add_argument(
        "--thinking-budget", choices=("on", "off", "learn"), default="learn", help="whether the engine takes thinking budgets (%(default)s)"
    )
    parser.add_argument("--guard", action="store_true", help="refuse whole-file writes that leave text out, and commands that destroy")
    parser.add_argument("--max-body", type=int, default=MAX_BODY, metavar="BYTES", help="largest request (%(default)d)")
    parser.add_argument("--cors-origin", action="append", default=[], metavar="ORIGIN", help="web page that may call; none by default")


def from_arguments(words: Sequence[str]) -> Settings:
    """The settings in the words of `podwright bridge`. Exits as argparse does; raises SettingsError for a bad value."""
    parser = argparse.ArgumentParser(prog="podwright bridge")
    add_arguments(parser)
    return from_options(parser.parse_args(words))


def from_options(options: argparse.Namespace) -> Settings:
    """The settings in parsed options of `add_arguments`. A model without a name takes it from the engine, later."""
    host, port = _address(options.listen)
    names = (options.model,) if options.model else ()
    model = Model(names, _url(options.upstream), tuple(dict.fromkeys(options.alias)), options.context_window)
    keys = tuple(_key(text) for text in options.api_key_env)
    for word, value, least in (
        ("--ping", options.ping, 0.05),
        ("--usage-interval", options.usage_interval, 0),
        ("--silence", options.silence, 1),
        ("--hold", options.hold, 0),
    ):
        if not value >= least:
            raise SettingsError(f"{word} {value:g}: must be at least {least:g}")
    return Settings(
        models=(model,), mode=options.mode, host=host, port=port, ping_s=options.ping, usage_s=options.usage_interval,
        silence_s=options.silence, hold_s=options.hold, thinking_budget={"on": True, "off": False, "learn": None}[options.thinking_budget],
        keys=keys, guard=options.guard, max_prompt_tokens=options.context_window, max_body=options.max_body,
        cors_origins=tuple(options.cors_origin),
    )  # fmt: skip


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"--listen {text}: is no HOST:PORT")
    return host.strip("[]"), int(port)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SettingsError(f"--upstream {text}: is no http or https address")
    return text.rstrip("/").removesuffix("/v1")


def _key(text: str) -> tuple[str, str]:
    name, _, env = text.rpartition("=")
    return (name or env.lower(), env)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
