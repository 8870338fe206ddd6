"""`podwright secrets`: which secrets a profile needs, making them, giving them other values, and the proof that pods serve with those."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from compiler.console import print_json, table
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.connection import Transport, connected
from compiler.deploy.display import Shown
from compiler.deploy.failures import DeployError
from compiler.deploy.outcome import FAILED, OK, REFUSED, failed
from compiler.deploy.provider import Provider
from compiler.deploy.provider_errors import Forbidden, WrongState
from compiler.deploy.publish.followers import places_of, values_here
from compiler.deploy.publish.pods import PodClient, Unseen
from compiler.deploy.refusals import NotAgreed
from compiler.deploy.secret_store import NotProven, SecretsByHand, SecretStore, SecretUnusable, Stored, by_hand, store_of, usable
from compiler.deploy.state_file import FOLDER, StateFile
from compiler.plan import Plan
from compiler.plan.core import SecretPlan

Deed = Literal["list", "check", "create", "rotate", "prove"]
Proof = Literal["proven", "other", "unset", "too-short", "unseen", "not-here"]
_WORDS: dict[Proof, str] = {
    "proven": "serves with the value that is set here",
    "other": "has ANOTHER value: restart the pod",
    "unset": "has NO value",
    "too-short": "has one that is too short to be proven",
    "unseen": "cannot tell",
    "not-here": "no value is set here to compare with",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The options of `podwright secrets`. `names` are variables; none means all of the profile."""

    deed: Deed = "list"
    names: tuple[str, ...] = ()
    yes: bool = False
    endpoints: tuple[str, ...] = ()
    transport: Transport = "v2"
    as_json: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One secret of a profile. `there` None: the provider does not say. `made` says what this command did."""

    env: str
    name: str
    required: bool
    purpose: str
    here: bool
    there: bool | None
    changed: str = ""
    made: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class PodProof:
    """What one pod says of one secret."""

    pod: str
    env: str
    proof: Proof
    detail: str = ""


def run_secrets(
    plan: Plan,
    orders: Orders,
    *,
    folder: Path = FOLDER,
    clock: Clock | None = None,
    prompt: Callable[[str], str] | None = None,
) -> int:
    """List, check, create, rotate or prove the secrets of a profile. Gives the exit code."""
    ask = prompt or (lambda question: getpass.getpass(question, stream=sys.stderr))
    display = Shown(agreed=orders.yes)
    try:
        wanted = _wanted(plan, orders.names)
        if orders.deed == "prove":
            return _proved(plan, wanted, orders, StateFile(plan.profile, folder), display)
        with closing(
            connected(plan.target, os.environ, transport=orders.transport, clock=clock or SystemClock(), on_wait=display.say)
        ) as provider:
            found = _Work(provider, wanted, orders, display, ask).rows()
    except DeployError as failure:
        return failed(failure, as_json=orders.as_json)
    missing = [row for row in found if row.required and row.there is False]
    if orders.as_json:
        print_json(
            {
                "ok": not missing,
                "profile": plan.profile,
                "secrets": [dataclasses.asdict(row) for row in found],
                "missing": [row.name for row in missing],
            }
        )
    else:
        print(_table(found))
        _say_next(plan, orders, missing)
    return REFUSED if missing and orders.deed != "list" else OK


def _say_next(plan: Plan, orders: Orders, missing: Sequence[Row]) -> None:
    """What is still to be done after a rotation, or about what a check found missing."""
    if orders.deed == "rotate":
        print(
            f"A pod gets the new value at its next start: `podwright restart {plan.profile}`. It is over when `podwright secrets {plan.profile} --prove` says so."
        )
    if orders.deed == "check" and missing:
        names = ", ".join(row.env for row in missing)
        where = "or name a file of NAME=value lines in PODWRIGHT_SECRETS" if plan.target == "docker" else f"and run `podwright secrets {plan.profile} --create`"
        print(f"fix: Export {names}, {where}.", file=sys.stderr)


class _Work:
    """List, check, create or rotate at one provider."""

    def __init__(
        self, provider: Provider, wanted: Sequence[SecretPlan], orders: Orders, display: Shown, prompt: Callable[[str], str]
    ) -> None:
        self._provider, self._wanted, self._orders, self._display, self._prompt = provider, wanted, orders, display, prompt
        self._here = values_here(provider.name, os.environ)

    def rows(self) -> list[Row]:
        """The secrets after the deed."""
        try:
            store = store_of(self._provider, [s.env for s in self._wanted])
            there = store.stored()
        except SecretsByHand:
            if self._orders.deed in ("create", "rotate"):
                raise
            return [
                dataclasses.replace(row, there=row.here if self._provider.name == "docker" else None)
                for row in (_row(s, None, self._here) for s in self._wanted)
            ]
        if there is None and self._orders.deed in ("create", "rotate"):
            raise SecretsByHand(
                "the provider does not list secrets",
                "What exists cannot be told from what is missing.",
                "Give the key the right to secrets, or make them in the console.",
            )
        if self._orders.deed == "create":
            return self._created(store, there or {})
        if self._orders.deed == "rotate":
            return self._rotated(store, there or {})
        return [_row(s, there, self._here) for s in self._wanted]

    def _created(self, store: SecretStore, there: Mapping[str, Stored]) -> list[Row]:
        absent = [s for s in self._wanted if s.provider_name not in there]
        values = {s.env: self._value(s, "new") for s in absent}  # All of them before the first is made.
        made: list[str] = []
        for secret in absent:
            value = values[secret.env]
            if value is None:
                continue
            try:
                store.create(secret.provider_name, value, secret.purpose)
            except WrongState:
                pass  # Somebody made it meanwhile: it is there.
            except Forbidden as refusal:
                raise by_hand([s.provider_name for s in absent if s.provider_name not in made], refusal) from None
            made.append(secret.provider_name)
            self._display.say(f"made {secret.provider_name}")
        again = store.stored() or {}
        return [dataclasses.replace(_row(s, again, self._here), made="created" if s.provider_name in made else "") for s in self._wanted]

    def _rotated(self, store: SecretStore, there: Mapping[str, Stored]) -> list[Row]:
        absent = [s.provider_name for s in self._wanted if s.provider_name not in there]
        if absent:
            raise SecretUnusable(
                f"the provider has no secret named {', '.join(absent)}", "What does not exist has no value to change.", "Use --create."
            )
        values = [(s, self._value(s, "new") or "") for s in self._wanted]
        if not self._display.ask(f"Give {', '.join(s.provider_name for s, _ in values)} another value? Pods take it at their next start."):
            raise NotAgreed("nobody said yes", "Nothing was changed.", "Answer y, or give --yes where nobody can be asked.")
        for secret, value in values:
            try:
                store.change(there[secret.provider_name], usable(secret.env, value))
            except Forbidden as refusal:
                raise by_hand([secret.provider_name], refusal) from None
        again = store.stored() or {}
        return [dataclasses.replace(_row(s, again, self._here), made="changed") for s, _ in values]

    def _value(self, secret: SecretPlan, which: str) -> str | None:
        """A value from the environment or a hidden prompt; None for an optional one that nobody has. Raises SecretUnusable."""
        given = os.environ.get(secret.env, "")
        if given.strip():
            return usable(secret.env, given)
        if not sys.stdin.isatty() and not self._orders.yes:
            given = ""
        elif sys.stdin.isatty():
            given = self._prompt(f"{which} value of {secret.env} ({secret.purpose}; it is not shown): ")
        if not given.strip() and not secret.required and which == "new" and self._orders.deed == "create":
            return None
        if not given.strip():
            raise SecretUnusable(
                f"no value for {secret.env}",
                "It is not in the environment, and nobody typed one. Nothing was made or changed.",
                f"Export {secret.env}, or run this in a terminal, which asks for it without showing it.",
            )
        return usable(secret.env, given)


def salted(salt: bytes, value: str) -> str:
    """What a pod answers for a value: hexadecimal sha256 over salt and value."""
    return hashlib.sha256(salt + value.encode("utf-8", "surrogateescape")).hexdigest()


def proofs_of(pod: str, client: PodClient, wanted: Sequence[SecretPlan], environ: Mapping[str, str]) -> list[PodProof]:
    """What one pod proves of each secret, by a salt that nobody has used before."""
    salt = secrets.token_bytes(32)
    answer = client.proofs(salt.hex())
    if isinstance(answer, Unseen):
        return [PodProof(pod, s.env, "unseen", answer.reason) for s in wanted]
    shown, unset, short = answer.get("proofs"), answer.get("unset"), answer.get("too_short")
    found = []
    for secret in wanted:
        value = environ.get(secret.env, "").strip()
        told = shown.get(secret.env) if isinstance(shown, dict) else None
        proof: Proof = "other"
        if isinstance(unset, list) and secret.env in unset:
            proof = "unset"
        elif isinstance(short, list) and secret.env in short:
            proof = "too-short"
        elif not isinstance(told, str):
            proof = "unseen"
        elif not value:
            proof = "not-here"
        elif secrets.compare_digest(told, salted(salt, value)):
            proof = "proven"
        found.append(PodProof(pod, secret.env, proof))
    return found


def _proved(plan: Plan, wanted: Sequence[SecretPlan], orders: Orders, file: StateFile, display: Shown) -> int:
    """Ask every pod; the exit code says whether all of them serve with what is set here."""
    key_env = plan.bridge.api_key_env
    here = values_here(plan.target, os.environ)
    key = here.get(key_env, "").strip() or None if key_env else None
    places = [p for p in places_of(plan, orders.endpoints, os.environ, orders.transport, file, display.say) if not p[2]]
    if not places:
        raise NotProven(
            f"no running pod of {plan.profile} is known", "A proof comes from a pod.", "Deploy one, or name it with --endpoint URL."
        )
    found: list[PodProof] = []
    for pod, url, _ in places:
        with closing(PodClient(url, key)) as client:
            found += proofs_of(pod, client, wanted, here)
    required = {s.env for s in wanted if s.required} | ({key_env} if key_env else set())
    good = all(one.proof == "proven" or (one.env not in required and one.proof in ("unset", "not-here")) for one in found)
    if orders.as_json:
        print_json({"ok": good, "profile": plan.profile, "proofs": [dataclasses.asdict(one) for one in found]})
        return OK if good else FAILED
    for one in found:
        print(f"{one.pod}: {one.env} {_WORDS[one.proof]}{f': {one.detail}' if one.detail else ''}")
    if not good:
        print(
            NotProven(
                f"the rotation of {plan.profile} is not over",
                "A pod keeps the values that it started with, and one that cannot tell may have any.",
                f"`podwright restart {plan.profile}` gives it the provider's present values; then prove again. Until then the old value must stay valid.",
            ).formatted(),
            file=sys.stderr,
        )
    return OK if good else FAILED


def _wanted(plan: Plan, names: Sequence[str]) -> list[SecretPlan]:
    """The secrets meant, by variable or by the provider's name. Raises SecretUnusable for one that the profile does not name."""
    if not names:
        return list(plan.secrets)
    found = [s for s in plan.secrets if s.env in names or s.provider_name in names]
    unknown = set(names) - {s.env for s in found} - {s.provider_name for s in found}
    if unknown:
        raise SecretUnusable(
            f"{plan.profile} has no secret {', '.join(sorted(unknown))}",
            "Only what the profile names reaches a pod.",
            f"It has {', '.join(s.env for s in plan.secrets) or 'none'}.",
        )
    return found


def _row(secret: SecretPlan, there: Mapping[str, Stored] | None, values: Mapping[str, str]) -> Row:
    stored = there.get(secret.provider_name) if there is not None else None
    here = bool(values.get(secret.env, "").strip())
    return Row(
        secret.env,
        secret.provider_name,
        secret.required,
        secret.purpose,
        here,
        None if there is None else stored is not None,
        stored.changed if stored else "",
    )


def _table(found: Sequence[Row]) -> str:
    if not found:
        return "the profile names no secrets"
    said = {True: "there", False: "MISSING", None: "not told"}
    cells = [
        (
            r.env,
            r.name,
            r.made or (said[r.there] if r.required or r.there is not False else "absent, optional"),
            r.changed[:10],
            "yes" if r.here else "no",
            r.purpose,
        )
        for r in found
    ]
    return table(cells, ("variable", "provider's name", "at the provider", "since", "set here", "opens"))
