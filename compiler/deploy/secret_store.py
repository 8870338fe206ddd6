"""Secrets at a provider: their names, new ones, other values. A value goes in and never comes out, not even in a message."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from compiler.deploy.answers import mapping, rows, text
from compiler.deploy.failures import DeployError
from compiler.deploy.http_api import ApiClient
from compiler.deploy.provider import Provider
from compiler.deploy.provider_errors import Missing, ProviderError

SECRETS = "/v2/account/secrets"
CONSOLE = "https://console.runpod.io/user/secrets"
# A page is at most 1,000 rows; a server that repeats its cursor must not keep us asking.
MAX_PAGES = 50


class SecretUnusable(DeployError):
    """A value that cannot be a secret's, or none at all."""

    code = "DPL080"


class SecretsByHand(DeployError):
    """This provider, interface or key cannot make secrets: a person must."""

    code = "DPL081"


class NotProven(DeployError):
    """A pod does not serve with the value that is set here, or cannot tell."""

    code = "DPL082"


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A secret at the provider. `changed` is when its value was set last, as the provider writes it."""

    id: str
    name: str
    changed: str


class SecretStore(Protocol):
    """Where secrets are. Every method may raise a ProviderError; none of their texts holds a value."""

    def stored(self) -> Mapping[str, Stored] | None:
        """All secrets by name; None where they cannot be listed."""
        ...

    def create(self, name: str, value: str, purpose: str) -> None:
        """Make one. Raises WrongState where the name is taken."""
        ...

    def change(self, secret: Stored, value: str) -> None:
        """Give one another value; pods get it at their next start."""
        ...


class RunpodSecrets:
    """RunPod's secrets by REST v2."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def stored(self) -> Mapping[str, Stored] | None:
        """All secrets of the account."""
        found: dict[str, Stored] = {}
        params: dict[str, str | int] = {}
        for _ in range(MAX_PAGES):
            try:
                body = mapping(self._api.get(SECRETS, params))
            except Missing:
                return None
            for row in rows(body.get("secrets")):
                name, number = text(row.get("name")), text(row.get("id"))
                if name and number:
                    found[name] = Stored(number, name, text(row.get("valueLastUpdatedAt")) or text(row.get("createdAt")) or "")
            cursor = text(mapping(body.get("pagination")).get("nextCursor"))
            if cursor is None or params.get("cursor") == cursor:
                break
            params = {"cursor": cursor}
        return found

    def create(self, name: str, value: str, purpose: str) -> None:
        """Make one; never asked twice, for a second answer would say that the name is taken."""
        self._sent("POST", SECRETS, {"name": name, "value": value, "description": purpose[:500]}, value)

    def change(self, secret: Stored, value: str) -> None:
        """Another value under the same name."""
        self._sent("PATCH", f"{SECRETS}/{secret.id}", {"value": value}, value)

    def _sent(self, method: str, path: str, body: Mapping[str, Any], value: str) -> None:
        try:
            self._api.send(method, path, body=body, again=False)
        except ProviderError as failure:
            raise without(value, failure) from None


def without(value: str, failure: ProviderError) -> ProviderError:
    """The same failure with a value taken out of its words: a server may quote what it refuses."""
    for name in ("what", "why", "fix", "detail"):
        setattr(failure, name, str(getattr(failure, name)).replace(value, "[hidden: the value]"))
    failure.args = (failure.what,)
    return failure


def store_of(provider: Provider, names: list[str]) -> SecretStore:
    """The store of a provider. Raises SecretsByHand with what to click where there is none."""
    from compiler.deploy.runpod_v2 import RunpodV2

    if isinstance(provider, RunpodV2):
        return RunpodSecrets(provider.api)
    if provider.name == "docker":
        raise SecretsByHand(
            "containers on your own machine get their secrets from this environment",
            "There is no account that keeps them.",
            f"Export {', '.join(names) or 'them'}, or write NAME=value lines into a file and name it in PODWRIGHT_SECRETS.",
        )
    raise SecretsByHand(
        "this interface of RunPod has no secrets",
        "Only REST v2 lists and makes them.",
        f"Leave --transport out; or open {CONSOLE}, press Create Secret, and make {', '.join(names) or 'what is missing'} under exactly that name.",
    )


def by_hand(names: list[str], failure: ProviderError) -> SecretsByHand:
    """What to click where the provider refused, for instance because the key may not."""
    return SecretsByHand(
        failure.what,
        f"{failure.why} Nothing else was made.",
        f"Give the key the right to secrets, or open {CONSOLE}, press Create Secret, and make {', '.join(names)} under exactly that name.",
    )


def usable(env: str, value: str) -> str:
    """A value as it is stored: without the white space around it that copying adds. Raises SecretUnusable, without quoting it."""
    stripped = value.strip()
    problem = None
    if not stripped:
        problem = "is empty"
    elif any(not c.isprintable() for c in stripped):
        problem = "holds a line break or another character that no header can carry"
    elif stripped.startswith("{{"):
        problem = "is a reference to a secret, not a value"
    if problem is None:
        return stripped
    raise SecretUnusable(
        f"the value of {env} {problem}",
        "A pod would start with it and refuse everybody, or be refused.",
        f"Set {env} to the value itself, on one line.",
    )
