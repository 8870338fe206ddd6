"""`podwright deploy` and `podwright wait`: from a compiled profile to a pod that is proven to serve, or to a clear reason why not."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from compiler.console import print_json, unicode_output
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.connection import Transport, connected
from compiler.deploy.display import Shown, duration, money, shown
from compiler.deploy.failures import DeployError
from compiler.deploy.finding import found_pod
from compiler.deploy.http_api import MAX_SKEW_S
from compiler.deploy.life import Life, Outcome, Terms
from compiler.deploy.offer import Offer, Wishes, offered
from compiler.deploy.offer_text import offer_json, offer_text, plan_text
from compiler.deploy.outcome import OK, REFUSED, failed
from compiler.deploy.proof import Endpoint, Proof
from compiler.deploy.provider import Provider, Wanted
from compiler.deploy.provider_errors import KeyMissing
from compiler.deploy.refusals import NotAgreed
from compiler.deploy.state_file import FOLDER, PodRecord, StateFile
from compiler.deploy.waiting import Waiter
from compiler.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The options of `podwright deploy`."""

    dry_run: bool = False
    yes: bool = False
    keep: bool = False
    replace: bool = False
    template: bool = True
    unlocked: bool = False
    max_hours: float | None = None
    transport: Transport = "v2"
    as_json: bool = False


def run_deploy(wanted: Wanted, orders: Orders, *, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """Show the offer, ask, and carry it out. Gives the exit code."""
    time, file = clock or SystemClock(), StateFile(wanted.plan.profile, folder)
    try:
        with (
            shown(agreed=orders.yes) as display,
            closing(connected(wanted.plan.target, os.environ, transport=orders.transport, clock=time, on_wait=display.say)) as provider,
        ):
            wishes = Wishes(orders.replace, orders.template, orders.unlocked, os.environ)
            if orders.dry_run:
                return _dry_run(offered(provider, wanted, file.read(), wishes, time.time()), provider, orders)
            with file.locked():
                offer = offered(provider, wanted, file.read(), wishes, time.time())
                _show(offer, provider, orders)
                if offer.problems:
                    return _refused(offer, orders)
                _agree(offer, display)
                outcome = Life(
                    provider, offer, file, waiter(provider, wanted.plan, time, display), display, time, Terms(orders.keep, orders.max_hours)
                ).run()
    except KeyMissing as failure:
        if not orders.as_json:
            print(plan_text(wanted.plan, ascii_only=not unicode_output()), flush=True)
            print("nothing was asked: stock, prices of today, and what exists already are not known", file=sys.stderr)
        return failed(failure, as_json=orders.as_json)
    except DeployError as failure:
        return failed(failure, as_json=orders.as_json)
    return _served(wanted.plan, outcome.record, outcome.proofs, outcome, as_json=orders.as_json)


def run_wait(plan: Plan, *, transport: Transport, as_json: bool, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """Wait until the profile's pod serves, and prove it. The pod is left as it is, whatever comes out."""
    time, file = clock or SystemClock(), StateFile(plan.profile, folder)
    try:
        with (
            shown() as display,
            closing(connected(plan.target, os.environ, transport=transport, clock=time, on_wait=display.say)) as provider,
        ):
            record = found_pod(provider, plan.profile, file)
            look = waiter(provider, plan, time, display)
            proofs = look.proven(record, look.until_serving(record))
            with file.locked():
                state = file.read()
                if state.pod is not None and state.pod.id == record.id:
                    file.write(dataclasses.replace(state, pod=dataclasses.replace(state.pod, served=time.time())))
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    return _served(plan, record, tuple(proofs), None, as_json=as_json, now=time.time())


def waiter(provider: Provider, plan: Plan, clock: Clock, display: Shown) -> Waiter:
    """A waiter that shows what it sees; the endpoint's key comes from the environment."""
    name = plan.bridge.api_key_env
    key = os.environ.get(name, "").strip() or None if name else None
    opened: Callable[[str], Endpoint] = lambda url: Endpoint(url, key)  # noqa: E731 - an argument, not a function of this module
    return Waiter(provider, plan, clock, opened, say=display.say, show=display.progress)


def _dry_run(offer: Offer, provider: Provider, orders: Orders) -> int:
    """Print what would be done, and what stands in the way."""
    if orders.as_json:
        print_json({"ok": not offer.problems, **offer_json(offer)})
    else:
        _show(offer, provider, orders)
        for problem in offer.problems:
            print(problem.formatted(), file=sys.stderr)
        print("dry run: nothing was created or changed", file=sys.stderr)
    return REFUSED if offer.problems else OK


def _refused(offer: Offer, orders: Orders) -> int:
    """Print why nothing is spent."""
    if orders.as_json:
        print_json({"ok": False, **offer_json(offer)})
    else:
        for problem in offer.problems:
            print(problem.formatted(), file=sys.stderr)
        print("nothing was created or changed", file=sys.stderr)
    return REFUSED


def _show(offer: Offer, provider: Provider, orders: Orders) -> None:
    """The offer on stdout, or on stderr where stdout is for JSON; and a word about a wrong clock."""
    print(
        offer_text(offer, end_by_h=orders.max_hours, ascii_only=not unicode_output()),
        end="",
        file=sys.stderr if orders.as_json else sys.stdout,
        flush=True,
    )
    if abs(provider.skew_s()) > MAX_SKEW_S:
        print(
            f"warning: this machine's clock is {duration(abs(provider.skew_s()))} {'ahead' if provider.skew_s() > 0 else 'behind'}; "
            "ages and costs below are off by that",
            file=sys.stderr,
        )


def _agree(offer: Offer, display: Shown) -> None:
    """Ask before anything is spent or ended. Raises NotAgreed."""
    if offer.deed == "adopt" and not offer.template_differences:
        return
    costs = offer.deed != "adopt" and offer.wanted.plan.deploy.provider != "local"
    price = (
        f" This spends {money(offer.price[1]) + ' an hour' if offer.price else 'money'} until the pod is stopped or terminated."
        if costs
        else ""
    )
    if not display.ask(f"Go on?{price}"):
        raise NotAgreed("nobody said yes", "Nothing was created or changed.", "Answer y, or give --yes where nobody can be asked.")


def _served(
    plan: Plan, record: PodRecord, proofs: tuple[Proof, ...], outcome: Outcome | None, *, as_json: bool, now: float | None = None
) -> int:
    """Print how to connect and what it cost."""
    spent = outcome.cost_usd if outcome else record.cost_usd(now or 0.0)
    connect = f"podwright connect {plan.profile} --launch"
    if as_json:
        print_json(
            {
                "ok": True,
                "profile": plan.profile,
                "pod": dataclasses.asdict(record),
                "url": record.url,
                "model": plan.client.model,
                "connect": connect,
                "proofs": [dataclasses.asdict(p) for p in proofs],
                "cost_usd": spent,
                "seconds": outcome.seconds if outcome else None,
                "phases": dict(outcome.phases) if outcome else {},
            }
        )
        return OK
    took = f" after {duration(outcome.seconds)}" if outcome else ""
    print(f"{plan.profile} serves{took}: {record.url}, model {plan.client.model}")
    if outcome and outcome.phases:
        print("  phases: " + ", ".join(f"{phase} {duration(took)}" for phase, took in outcome.phases.items()))
    for proof in proofs:
        print(f"  proven: {proof.name}: {proof.detail}")
    print(f"  connect Claude Code: {connect}")
    cost = "" if plan.deploy.provider == "local" else f"cost so far: {money(spent)} at {money(record.price_usd_h)} an hour; "
    print(f"  {cost}`podwright stop {plan.profile}` or `podwright terminate {plan.profile}` ends it")
    return OK
