"""`podwright local`: the environment or the image, then the run, told on stderr; how to connect, on stdout."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from compiler.console import print_json
from compiler.deploy.failures import DeployError, LocalRunFailed
from compiler.deploy.local.container import ContainerRun
from compiler.deploy.local.environment import engine_environment
from compiler.deploy.local.interpreters import is_linux_x86
from compiler.deploy.local.own import OwnRun, running_descriptor
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Ports, Reservations, check_wanted, chosen_ports
from compiler.deploy.local.run import Run, Seen
from compiler.deploy.local.session import Session
from compiler.deploy.local.tree import lay_out
from compiler.plan import Plan
from compiler.units import grouped

OK, FAILED = 0, 4
# Claude Code's own prompt with all its tools, in tokens of the generated model: 47,999, read 2026-11-30. In a smaller window it is refused.
WHOLE_CLIENT = 48_000


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """What the command line asks for. `python`, `network` and `base` as their options; `port` None means the plan's or the next."""

    docker: bool = False
    port: int | None = None
    python: str | None = None
    network: str | None = None
    base: str | None = None
    as_json: bool = False


def run_local(plan: Plan, out: Path, orders: Orders) -> int:
    """Serve a profile whose bundle was just written, until a signal; the exit code."""
    places = Places.of(plan.profile, out, os.environ)
    began, reservations = time.monotonic(), Reservations(places.cache)
    try:
        running = _alone(places)
        try:
            key = places.key(plan.bridge.api_key_env, os.environ) if plan.bridge.api_key_env else ""
            check_wanted(plan, orders.port)  # a refusal must not come minutes later
            _check_secrets(plan, os.environ)
            (_prepare_image if orders.docker else _prepare_tree)(plan, places, orders)
            ports = chosen_ports(plan, orders.port, reservations)
            run: Run = (ContainerRun(plan, places, ports, key, orders.network, os.environ) if orders.docker
                        else OwnRun(plan, places, ports, key, os.environ, running))  # fmt: skip
            _note_running(running, ports)
            _say(f"starting {plan.profile}{' in a container' if orders.docker else ''}; its output is in {_shown(places.log)}")

            def serving(seen: Seen, seconds: float) -> None:
                _print_connection(plan, places, ports, key, seen, seconds, time.monotonic() - began, as_json=orders.as_json)

            Session(run, _say, serving).stay()
        finally:
            reservations.release()
            os.ftruncate(running, 0)
            os.close(running)
    except DeployError as failure:
        if orders.as_json:
            print_json({"ok": False} | failure.to_json())
        else:
            print(failure.formatted(), file=sys.stderr)
        return FAILED
    return OK


def _alone(places: Places) -> int:
    running = running_descriptor(places)
    if running is None:
        raise LocalRunFailed(
            f"{places.profile} runs here already: {places.lock.read_text('utf-8').strip() or 'it is starting'}", f"{places.home} is in use.",
            "Use that one, end it with Ctrl-C or the kill of its process, or run this one with another --out.",
        )  # fmt: skip
    return running


def _note_running(running: int, ports: Ports) -> None:
    os.ftruncate(running, 0)
    os.pwrite(running, f"process {os.getpid()}, http://127.0.0.1:{ports.endpoint}\n".encode(), 0)


def _check_secrets(plan: Plan, environ: Mapping[str, str]) -> None:
    missing = [s.env for s in plan.secrets if s.required and s.env != plan.bridge.api_key_env and not environ.get(s.env, "").strip()]
    if missing:
        raise LocalRunFailed(f"{', '.join(missing)} must be set", "The profile needs it, and only the endpoint's own key is made here.", f"export {missing[0]}=..., and start again.")


def _prepare_tree(plan: Plan, places: Places, orders: Orders) -> None:
    """Everything that the image would hold, in a folder. Raises LocalRunFailed where this profile or machine cannot."""
    if plan.image.recipe != "vllm-cpu":
        raise LocalRunFailed(
            f"{plan.profile} needs {plan.hardware.count} x {plan.hardware.name}", "Outside a container only the CPU build of the engine is installed here.",
            "Say --docker (make: DOCKER=1) on a machine with that GPU, or take the profile tiny-cpu to see how everything works.",
        )  # fmt: skip
    if not is_linux_x86():
        raise LocalRunFailed("this machine is no Linux on x86-64", "The engine's lock and the runtime are for that.", "Say --docker (make: DOCKER=1), where a Docker engine runs.")
    if plan.model.folder is not None:
        raise LocalRunFailed(f"the weights of {plan.model.slug} lie in a mounted folder", f"In the pod it is {plan.model.folder}.", "Say --docker (make: DOCKER=1), which mounts it.")
    _say("looking for the engine's environment")
    python = engine_environment(plan, places.bundle, places.cache, orders.python, os.environ, _say)
    lay_out(plan, places, python)


def _prepare_image(plan: Plan, places: Places, orders: Orders) -> None:
    """The image, built by this machine's Docker engine, which keeps every step for the next time."""
    from compiler.deploy.image import BuildEvent, build_image

    def show(event: BuildEvent) -> None:
        if event.kind in ("step", "warning"):
            _say(f"[{event.step}/{event.steps}] {event.text}" if event.step is not None else event.text)

    built = build_image(plan, places.bundle, on_event=show, network=orders.network, base_override=orders.base)
    _say(f"{built.tag} is built: {built.size_bytes / 1e9:.2f} GB in {built.seconds:.0f} s")


def _print_connection(plan: Plan, places: Places, ports: Ports, key: str, seen: Seen, seconds: float, whole: float, *, as_json: bool) -> None:
    url = f"http://127.0.0.1:{ports.endpoint}"
    claude = f"{_key_reference(plan, places)}{shlex.quote(_shown(places.bundle / 'connect.sh'))} {url} --launch{_fewer_tools(plan)}"
    curl = _curl(plan, url, key)
    if as_json:
        print_json({
            "ok": True, "profile": plan.profile, "url": url, "key": key or None, "models": list(plan.model.served_names), "context_window": plan.engine.max_model_len,
            "claude": claude, "curl": curl, "seconds": round(seconds, 1), "seconds_in_all": round(whole, 1), "pid": os.getpid(), "log": str(places.log),
            "status": None if not seen.facts else f"http://127.0.0.1:{ports.status}/status", **seen.facts,
        })  # fmt: skip
        sys.stdout.flush()
        return
    rows = [("address", url), *([("key", key)] if key else []), ("claude", claude), ("curl", curl)]
    rows += [("status", f"curl -s http://127.0.0.1:{ports.status}/status")] if seen.facts else []
    print(f"{plan.profile} serves {plan.model.served_names[0]} with {grouped(plan.engine.max_model_len)} tokens, {seconds:.0f} s after its start. Ctrl-C stops everything.")
    print("\n".join(f"  {name:<8} {text}" for name, text in rows), flush=True)


def _fewer_tools(plan: Plan) -> str:
    """Arguments of claude without which its first prompt would not fit into a small window."""
    return " -- --tools Read" if plan.engine.max_model_len < WHOLE_CLIENT else ""


def _key_reference(plan: Plan, places: Places) -> str:
    """How a shell finds the key without showing it, in front of a command."""
    name = plan.bridge.api_key_env
    if not name or os.environ.get(name):
        return ""
    return f'{name}="$(cat {shlex.quote(_shown(places.home / "key"))})" '


def _curl(plan: Plan, url: str, key: str) -> str:
    body = f'{{"model": "{plan.model.served_names[0]}", "max_tokens": 64, "messages": [{{"role": "user", "content": "Hello"}}]}}'
    lock = f" -H 'x-api-key: {key}'" if key else ""
    return f"curl {url}/v1/messages{lock} -H 'content-type: application/json' -d '{body}'"


def _shown(path: Path) -> str:
    """A path as somebody in this folder would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
