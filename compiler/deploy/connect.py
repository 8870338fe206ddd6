"""`podwright connect`: an environment for Claude Code, by what the endpoint says of itself now and not only by the plan."""

from __future__ import annotations

import dataclasses
import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import httpx

from compiler.console import print_json
from compiler.deploy.answers import mapping, rows, text, whole
from compiler.deploy.connect_settings import elsewhere, overriding, settings_files
from compiler.deploy.connection import Transport, connected, provider_name
from compiler.deploy.failures import DeployError
from compiler.deploy.finding import found_pod
from compiler.deploy.http_api import USER_AGENT
from compiler.deploy.outcome import failed
from compiler.deploy.refusals import EndpointKeyMissing
from compiler.deploy.state_file import FOLDER, StateFile
from compiler.diagnostics import brief, printable
from compiler.plan import Plan
from compiler.render.connect import powershell_lines, shell_lines
from compiler.resolve.client import SUFFIX, client_env
from compiler.resolve.model import MILLION
from compiler.secrets import masked
from compiler.units import grouped

# The list of models is answered from memory; the provider's proxy itself needs a second or two.
ASK_S = 15.0
# How many bytes a list of models may have.
MAX_BYTES = 1 << 20
Shell = Literal["sh", "powershell"]


class EndpointSilent(DeployError):
    """The endpoint does not answer, or not as one."""

    code = "DPL090"


class EndpointKeyWrong(DeployError):
    """The endpoint refuses the key."""

    code = "DPL091"


class ClientMissing(DeployError):
    """Claude Code is not installed, or cannot be started."""

    code = "DPL092"


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The options of `connect`. `arguments` go to claude."""

    url: str | None = None
    shell: Shell = "sh"
    undo: bool = False
    launch: bool = False
    arguments: tuple[str, ...] = ()
    transport: Transport = "v2"
    as_json: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """A plan whose client is the one for what the endpoint serves; its address; and what a person should know."""

    plan: Plan
    url: str
    served: tuple[str, ...]
    window: int
    warnings: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Claude Code's variables without the key."""
        return {"ANTHROPIC_BASE_URL": self.url, **{v.name: v.value for v in self.plan.client.env if v.name not in ("ANTHROPIC_BASE_URL", self.plan.client.token_env)}}


def run_connect(plan: Plan, orders: Orders, *, folder: Path = FOLDER) -> int:
    """Print lines for a shell, or start claude. Gives the exit code, of claude where it was started."""
    if orders.undo:
        print(shell_lines(plan, "--undo") if orders.shell == "sh" else powershell_lines(plan, None), end="")
        return 0
    try:
        url = orders.url or _address(plan, orders.transport, folder)
        key = _key(plan, os.environ)
        found = connection(plan, url.rstrip("/"), key, os.environ, Path.cwd())
        for warning in found.warnings if not orders.as_json else ():
            print(printable(f"warning: {warning}"), file=sys.stderr)
        if orders.launch:
            return _launched(found, key, orders.arguments, os.environ)
    except DeployError as failure:
        return failed(failure, as_json=orders.as_json)
    if orders.as_json:
        print_json(_json(found))
    else:
        print(shell_lines(found.plan, found.url) if orders.shell == "sh" else powershell_lines(found.plan, found.url), end="")
        if sys.stdout.isatty():
            print(_hint(plan.profile, orders.shell), file=sys.stderr)
    return 0


def connection(plan: Plan, url: str, key: str | None, environment: Mapping[str, str], folder: Path) -> Connection:
    """Ask the endpoint what it serves, and fit the client to it. Raises EndpointSilent, EndpointKeyWrong."""
    models = _models(plan, url, key)
    served = tuple(models)
    warnings: list[str] = []
    name = _name(plan, served, warnings)
    window = models.get(name.removesuffix(SUFFIX)) or models.get(name) or next((w for w in models.values() if w), None)
    if window is None:
        warnings.append(f"the endpoint does not say how many tokens it serves; the plan's {grouped(plan.client.context_window)} are taken")
        window = plan.client.context_window
    if window != plan.client.context_window:
        warnings.append(f"the endpoint serves {grouped(window)} tokens, the plan has {grouped(plan.client.context_window)}: the endpoint's are taken")
    fitted = _fitted(plan, name, window, served, elsewhere(environment))
    found = Connection(fitted, url, served, window, ())
    warnings += [f"{variable} is set here: Claude Code would ask another provider; it is unset" for variable in elsewhere(environment)]
    warnings += overriding({**found.variables, fitted.client.token_env: key or "none"}, fitted.client.unset, settings_files(environment, folder))
    return dataclasses.replace(found, warnings=tuple(warnings))


def _fitted(plan: Plan, name: str, window: int, served: Sequence[str], unset: tuple[str, ...]) -> Plan:
    """The plan with its client for another name or window; as it is where both are its own."""
    client = dataclasses.replace(plan.client, unset=(*plan.client.unset, *unset))
    if (name, window) == (client.model, client.context_window):
        return dataclasses.replace(plan, client=client)
    bare = name.removesuffix(SUFFIX)
    if window >= MILLION:
        name = next((n for n in served if n.endswith(SUFFIX)), bare + SUFFIX)
    elif name.endswith(SUFFIX) or name.startswith("claude-"):
        name = next((n for n in served if not n.startswith("claude-")), bare)
    small = next((v.value for v in client.env if v.name == "ANTHROPIC_SMALL_FAST_MODEL"), name)
    env = client_env(name, name if small == client.model or small not in served else small, window)
    return dataclasses.replace(plan, client=dataclasses.replace(client, model=name, context_window=window, compact_window=min(window, MILLION), env=tuple(env)))


def _name(plan: Plan, served: Sequence[str], warnings: list[str]) -> str:
    """The plan's name, or, where the endpoint does not serve it, the first bare one that it does."""
    name = plan.client.model
    if not served or name in served or name.removesuffix(SUFFIX) in served:
        return name
    other = next((n for n in served if not n.startswith("claude-")), served[0])
    warnings.append(f"the endpoint does not serve {name}; {other} is taken (it serves {', '.join(served)})")
    return other


def _models(plan: Plan, url: str, key: str | None) -> dict[str, int | None]:
    """Served names with their windows in tokens, in the endpoint's order."""
    headers = {"User-Agent": USER_AGENT, **({"Authorization": f"Bearer {key}"} if key else {})}
    try:
        with httpx.Client(timeout=httpx.Timeout(ASK_S), headers=headers) as http, http.stream("GET", f"{url}/v1/models") as response:
            raw = b""
            for piece in response.iter_bytes():
                raw += piece
                if len(raw) > MAX_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _silent(plan, url, f"{type(error).__name__}: {error}", key) from None
    if response.status_code in (401, 403):
        raise EndpointKeyWrong(
            f"{url} refuses the key" if key else f"{url} asks for a key, and the profile has none",
            "Claude Code would be refused at its first request.", f"Set {plan.bridge.api_key_env or 'the key'} to the value that the pod was given.",
        )  # fmt: skip
    try:
        body = mapping(httpx.Response(200, content=raw).json())
    except (ValueError, RecursionError):
        body = {}
    found = {name: whole(row.get("max_model_len")) for row in rows(body.get("data")) if (name := text(row.get("id")))}
    if response.status_code != 200 or not found:
        raise _silent(plan, url, f"it answers {response.status_code}, and no list of models", key)
    return found


def _silent(plan: Plan, url: str, said: str, key: str | None) -> EndpointSilent:
    shown = printable(brief(masked(said.replace(key, "[hidden: the key]") if key else said), 300))
    return EndpointSilent(
        f"{url} does not serve: {shown}", "Nothing that Claude Code sends there would be answered.",
        f"`podwright status {plan.profile}` says what the pod does, `podwright wait {plan.profile}` waits until it serves.",
    )  # fmt: skip


def _address(plan: Plan, transport: Transport, folder: Path) -> str:
    """Where the profile's pod is reached: by the state file, else by the provider's list. Raises NoPod and the provider's errors."""
    file = StateFile(plan.profile, folder)
    state = file.read()
    if state.pod is not None and state.pod.url:
        return state.pod.url
    where = provider_name(file) if file.path.exists() else plan.target
    with closing(connected(where, os.environ, transport=transport)) as provider:
        return found_pod(provider, plan.profile, file).url


def _key(plan: Plan, environment: Mapping[str, str]) -> str | None:
    """The endpoint's key: from its variable, or asked for without being shown. None where the endpoint has none."""
    name = plan.bridge.api_key_env
    if name is None:
        return None
    value = environment.get(name, "").strip()
    if not value and sys.stdin.isatty() and sys.stderr.isatty():
        value = getpass.getpass("Key of the endpoint: ").strip()
    if not value or not value.isascii() or not value.isprintable():
        raise EndpointKeyMissing(
            f"{name} is not set" if not value else f"{name} holds characters that no header can carry", "The endpoint answers nobody without its key.",
            f"Export {name} with the value that the pod was given.",
        )  # fmt: skip
    return value


def _launched(found: Connection, key: str | None, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run claude with the variables; its exit code. Raises ClientMissing."""
    client = found.plan.client
    made = {name: value for name, value in environment.items() if name not in client.unset} | found.variables | {client.token_env: key or "none"}
    program = shutil.which("claude", path=made.get("PATH"))
    if program is None:
        raise ClientMissing("no program `claude` on PATH", "It is what --launch starts.", "Install it: npm install -g @anthropic-ai/claude-code.")
    print(f"Claude Code: {client.model}, {grouped(found.window)} tokens, at {found.url}", file=sys.stderr, flush=True)
    try:
        if os.name != "nt":
            os.execve(program, [program, *arguments], made)
        return subprocess.run([program, *arguments], env=made, check=False).returncode
    except OSError as error:
        raise ClientMissing(f"{program} cannot be started: {error.strerror}", "It is what --launch starts.", "Install it anew: npm install -g @anthropic-ai/claude-code.") from None


def _json(found: Connection) -> dict[str, object]:
    plan = found.plan
    return {
        "ok": True, "profile": plan.profile, "url": found.url, "model": plan.client.model, "context_window": found.window, "served": list(found.served),
        "environment": found.variables, "token_variable": plan.client.token_env, "key_variable": plan.bridge.api_key_env, "unset": list(plan.client.unset), "warnings": list(found.warnings),
    }  # fmt: skip


def _hint(profile: str, shell: Shell) -> str:
    if shell == "sh":
        return f'# For this shell: eval "$(podwright connect {profile})"; back: eval "$(podwright connect {profile} --undo)"'
    return f"# For this session: podwright connect {profile} --shell powershell | Out-String | Invoke-Expression"
