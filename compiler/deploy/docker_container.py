"""What a container of a profile is made of: the options of the bundle's `run.sh` in the words of the engine's API.

The endpoint is on loopback at the profile's port, and so are the profile's other ports. On the machine's own network (`host`) nothing is
published: there the endpoint itself listens on that address.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler.deploy.provider import Wanted
from compiler.deploy.refusals import SecretMissing, WrongTarget
from compiler.plan import Plan
from compiler.targets.docker import model_folders, needs_hub

# Choices of the machine, not of the profile.
PORT_ENV, ADDRESS_ENV, NETWORK_ENV, SECRETS_ENV = "PODWRIGHT_PORT", "PODWRIGHT_ADDRESS", "PODWRIGHT_DOCKER_NETWORK", "PODWRIGHT_SECRETS"
# The name, the fields that a later deploy compares, host addresses by port, and the card.
LABEL, FIELDS_LABEL, PORTS_LABEL, HARDWARE_LABEL = "dev.podwright.pod", "dev.podwright.fields", "dev.podwright.ports", "dev.podwright.hardware"
LOOPBACK = "127.0.0.1"
# Enough for days of the runtime's lines; without a bound a box that serves for months fills its disk.
LOG_SIZE, LOG_FILES = "50m", "3"


def is_local_name(reference: str) -> bool:
    """Whether an image's name is one of this machine's engine, which no registry has."""
    from compiler.deploy.lock import LOCAL_IMAGES  # Its clients of Hub and registries take time to import.

    return reference.startswith(LOCAL_IMAGES)


def fields(wanted: Wanted, environment: Mapping[str, str], image_id: str) -> dict[str, str]:
    """What the container is made from, as name and text. Secrets are not in it."""
    plan = wanted.plan
    ports = {str(port): address for port, address in addresses(plan, environment).items()}
    held = {
        "image": plan.image.reference, "image_id": image_id, "entrypoint": shlex.join(plan.deploy.entrypoint), "command": shlex.join(wanted.command),
        "ports": " ".join(f"{port.number}/{port.protocol}" for port in plan.network.ports), "addresses": " ".join(f"{a}:{p}" for p, a in sorted(ports.items())),
        "network": network(environment) or "", "mounts": " ".join(f"{m['Source']}:{m['Target']}" for m in _mounts(plan, environment)),
    }  # fmt: skip
    return held | {f"env {name}": value for name, value in sorted(_variables(plan, environment).items())}


def settings(client: Any, wanted: Wanted, name: str, environment: Mapping[str, str], image_id: str) -> Mapping[str, Any]:
    """The body of the engine's create call. Raises SecretMissing or WrongTarget."""
    plan, chosen = wanted.plan, network(environment)
    held = {str(port): address for port, address in addresses(plan, environment).items()}
    labels = {LABEL: plan.profile, PORTS_LABEL: json.dumps(held), HARDWARE_LABEL: plan.hardware.name, FIELDS_LABEL: json.dumps(fields(wanted, environment, image_id))}
    values = _variables(plan, environment) | _secrets(plan, environment)
    own_ports = [port.number for port in plan.network.ports] if chosen != "host" else []
    return dict(
        client.create_container_config(
            plan.image.reference, list(wanted.command), environment=values, ports=own_ports, labels=labels, detach=True,
            entrypoint=list(plan.deploy.entrypoint) or None, host_config=_host(client, plan, environment), stop_signal="SIGTERM",
        )
    )  # fmt: skip


def addresses(plan: Plan, environment: Mapping[str, str]) -> dict[int, str]:
    """`HOST:PORT` by the container's port. Raises WrongTarget for a port that is none."""
    here = environment.get(ADDRESS_ENV, "").strip() or LOOPBACK
    asked = environment.get(PORT_ENV, "").strip()
    if asked and not (asked.isdecimal() and 0 < int(asked) < 65536):
        raise WrongTarget(f"{PORT_ENV} is {asked!r}, which is no port", "The endpoint would be published there.", f"Unset {PORT_ENV}, or set it to a number below 65536.")
    shown = f"[{here}]" if ":" in here else here
    return {port.number: f"{shown}:{asked if asked and port.number == plan.network.endpoint_port else port.number}" for port in plan.network.ports}


def reached(address: str) -> str:
    """An address that listens on every interface, as this machine reaches it."""
    host, _, port = address.rpartition(":")
    return f"{LOOPBACK}:{port}" if host == "0.0.0.0" else f"[::1]:{port}" if host == "[::]" else address


def network(environment: Mapping[str, str]) -> str | None:
    """The engine's network that the container joins; None is the engine's usual one."""
    return environment.get(NETWORK_ENV, "").strip() or None


def secrets_file(environment: Mapping[str, str]) -> Path | None:
    """The file with `NAME=VALUE` lines, where one is named."""
    named = environment.get(SECRETS_ENV, "").strip()
    return Path(named).expanduser() if named else None


def secret_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Values by variable: the environment's, and before them the file's. Raises WrongTarget when the file cannot be read."""
    file = secrets_file(environment)
    if file is None:
        return dict(environment)
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongTarget(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}", f"{SECRETS_ENV} names it as the file with the secrets.", f"Copy the bundle's secrets.env.example there, or unset {SECRETS_ENV}.") from None
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return dict(environment) | {name: value for name, _, value in pairs if value}


def _secrets(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    values = secret_values(environment)
    missing = [secret.env for secret in plan.secrets if secret.required and not values.get(secret.env)]
    if missing:
        raise SecretMissing(
            f"{', '.join(missing)} has no value here", "The container is given its secrets when it is made.",
            f"Export it, or name a file of NAME=VALUE lines in {SECRETS_ENV}.",
        )  # fmt: skip
    return {secret.env: values[secret.env] for secret in plan.secrets if values.get(secret.env)}


def _variables(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """The pod's own variables; on the machine's network also where the endpoint listens."""
    found = {variable.name: variable.value for variable in plan.pod_env}
    if network(environment) == "host":
        host, _, port = addresses(plan, environment)[plan.network.endpoint_port].rpartition(":")
        found["PODWRIGHT_LISTEN"] = host.strip("[]")
        if int(port) != plan.network.endpoint_port:
            found["VL_PROXY_PORT"] = port
    return found


def _mounts(plan: Plan, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The compile cache's volume, the Hub cache, and folders of weights. Raises WrongTarget where a folder is missing."""
    found: list[dict[str, Any]] = [{"Type": "volume", "Source": f"{plan.deploy.pod_name}-cache", "Target": plan.storage.vllm_cache_root}]
    if needs_hub(plan):
        home = environment.get("PODWRIGHT_HF_HOME") or environment.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
        found.append({"Type": "bind", "Source": str(Path(home).absolute()), "Target": plan.storage.hf_home})
    for mount in model_folders(plan):
        chosen = environment.get(mount["variable"], "").strip()
        if not chosen:
            raise WrongTarget(f"{mount['variable']} is not set", "The documents name no repository for these weights.", f"Set {mount['variable']} to the folder that holds their config.json.")
        found.append({"Type": "bind", "Source": str(Path(chosen).absolute()), "Target": mount["folder"], "ReadOnly": True})
    return found


def _host(client: Any, plan: Plan, environment: Mapping[str, str]) -> Mapping[str, Any]:
    """The half of the body that is about the machine."""
    chosen = network(environment)
    bindings = {port: _bound(address) for port, address in addresses(plan, environment).items()}
    made: dict[str, Any] = dict(
        client.create_host_config(
            port_bindings=bindings if chosen != "host" else None, ipc_mode="host", network_mode=chosen, log_config=_log_config(client),
            # As a provider does: a container that ends is started again, and so is the box after a power cut.
            restart_policy={"Name": "unless-stopped"},
        )
    )  # fmt: skip
    made["Mounts"] = _mounts(plan, environment)
    if plan.hardware.architecture != "cpu":
        made["DeviceRequests"] = [{"Driver": "", "Count": plan.hardware.count, "Capabilities": [["gpu"]], "Options": {}}]
    return made


def _bound(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _log_config(client: Any) -> Mapping[str, Any] | None:
    """Bounds for the log where the engine's driver keeps it in files and knows them."""
    driver = client.info().get("LoggingDriver")
    return {"type": driver, "config": {"max-size": LOG_SIZE, "max-file": LOG_FILES}} if driver in ("json-file", "local") else None
