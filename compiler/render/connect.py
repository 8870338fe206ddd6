"""Plan -> `connect.sh` and `connect.ps1`: a shell's variables for Claude Code, set and put back. They never hold a key."""

from __future__ import annotations

import dataclasses

from compiler.artifact import Artifact
from compiler.plan import Plan
from compiler.plan.core import EnvVar
from compiler.render.environment import rendered
from compiler.units import grouped

SHELL_PATH, POWERSHELL_PATH = "connect.sh", "connect.ps1"
_ADDRESS = "ANTHROPIC_BASE_URL"


def render_connect(plan: Plan) -> list[Artifact]:
    """Both client scripts. Values are quoted for their shell; PowerShell's file is pure ASCII where the plan is."""
    return [render_connect_sh(plan), render_connect_ps1(plan)]


def render_connect_sh(plan: Plan) -> Artifact:
    """`connect.sh`, for bash and zsh: sourced to set, sourced with `--undo` to put back, run with `--launch`."""
    return Artifact(SHELL_PATH, rendered("connect.sh.j2", **_shell_values(plan)), 0o755)


def shell_lines(plan: Plan, *words: str) -> str:
    """Lines for `eval` in bash or zsh: the script's functions, and its call with `words` (an address, or `--undo`). They hold no key."""
    return rendered("connect_eval.sh.j2", **_shell_values(plan), words=words).decode()


def powershell_lines(plan: Plan, address: str | None) -> str:
    """The same for `Invoke-Expression`: connect.ps1 with its address filled in, or, without one, what puts back."""
    script = render_connect_ps1(plan, address or "http://nowhere").text
    return script if address else script.replace("[switch]$Undo,", "[switch]$Undo = $true,")


def render_connect_ps1(plan: Plan, address: str | None = None) -> Artifact:
    """`connect.ps1`, the same for PowerShell 5.1 and later. `address` is used where the script is given none."""
    values = _values(plan) | ({"default_address": address} if address else {}) | {
        "quoted_names": ", ".join(powershell_text(name) for name in _names(plan)),
        "started": f"Claude Code in this session: {plan.client.model} at ",
    }
    quoted = {key: powershell_text(str(values[key])) for key in ("default_address", "proxy_suffix", "started") if values[key] is not None}
    variables = [dataclasses.replace(v, value=powershell_text(v.value)) for v in _variables(plan)]
    return Artifact(POWERSHELL_PATH, rendered("connect.ps1.j2", **(values | quoted | {"variables": variables})))


def endpoint_address(plan: Plan) -> str | None:
    """Where the endpoint is reached, if that is known before it runs: on an own machine it is, on a rented pod it is not."""
    return None if plan.target == "runpod" else f"http://127.0.0.1:{plan.network.endpoint_port}"


def proxy_suffix(plan: Plan) -> str:
    """What follows a pod's id in the provider's public host name; the plain port has no public name."""
    return f"-{plan.network.endpoint_port}.proxy.runpod.net"


def powershell_text(value: str) -> str:
    """`value` as a PowerShell literal, which expands nothing. Typographic quotes end one too, so they are doubled as well."""
    return "'" + "".join(char * 2 if char in "'\u2018\u2019\u201a\u201b" else char for char in value) + "'"


def _values(plan: Plan) -> dict[str, object]:
    client = plan.client
    return {
        "profile": plan.profile, "model": client.model, "window": grouped(client.context_window), "unset": client.unset,
        "usage": "POD_ID" if plan.target == "runpod" else "[ADDRESS]", "variables": _variables(plan),
        "default_address": endpoint_address(plan) or "", "proxy_suffix": proxy_suffix(plan) if plan.target == "runpod" else None,
        "key_env": plan.bridge.api_key_env, "token_env": client.token_env,
    }  # fmt: skip


def _variables(plan: Plan) -> list[EnvVar]:
    """The plan's variables without address and token: the scripts set those from what they are told."""
    return [variable for variable in plan.client.env if variable.name not in (_ADDRESS, plan.client.token_env)]


def _names(plan: Plan) -> list[str]:
    """Every variable that the scripts touch, once, in the order in which they touch it."""
    return list(dict.fromkeys((*plan.client.unset, _ADDRESS, plan.client.token_env, *(v.name for v in _variables(plan)))))


def _shell_values(plan: Plan) -> dict[str, object]:
    names = " ".join(_names(plan))
    return _values(plan) | {"names": names, "token_reference": f'"${{{plan.bridge.api_key_env}-}}"', "model_shown": _shown_in_quotes(plan.client.model)}


def _shown_in_quotes(text: str) -> str:
    return "".join(f"\\{char}" if char in '"$`\\' else char for char in text)
