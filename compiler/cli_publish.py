"""Commands around what running pods follow: `publish`, `rollback`, `journal`, and the secrets that pods are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli_deploy import PodId, Transport, Yes
from compiler.cli_options import Json, OnlySpecs, Profile, Specs
from compiler.command_support import refuse, spec_store, usable_specset

if TYPE_CHECKING:
    from compiler.deploy.publish.command import Orders, Subject
    from compiler.deploy.publish.effect import Outage
    from compiler.load import SpecStore
    from compiler.schema.specset import SpecSet

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]
Now = Annotated[bool, typer.Option("--now", help="Restart engines at once, also under running requests.")]
Idle = Annotated[bool, typer.Option("--idle", help="Each pod waits for a moment without requests before it restarts its engine.")]
Note = Annotated[str, typer.Option("--note", help="A line for the history and the pods' journals.")]
NewPods = Annotated[
    bool, typer.Option("--for-new-pods", help="Publish although running pods cannot take it over; they keep what they have.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not follow the pods until they serve it.")]
Endpoints = Annotated[
    list[str] | None, typer.Option("--endpoint", help="Address of a pod that no provider lists. Repeat for several.", show_default=False)
]
CreateRepo = Annotated[bool, typer.Option("--create-repo", help="Make the repository, private, where it does not exist.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (publish, rollback, journal, secrets):
        app.command()(command)


def publish(
    profile: Profile, dry_run: DryRun = False, yes: Yes = False, now: Now = False, idle: Idle = False, note: Note = "", for_new_pods: NewPods = False,
    create_repo: CreateRepo = False, no_wait: NoWait = False, endpoint: Endpoints = None, transport: Transport = "v2", specs: Specs = [],
    only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Give running pods a new revision of their profile: compile, check, sign, upload in one commit, and follow until they serve it.

    Shows first what each pod will do: nothing, a bridge reload, or an engine restart with its outage; and asks.

    Examples:

      podwright publish nemotron-ada --dry-run

      podwright publish nemotron-ada --idle --note "wider batches"

      podwright publish mine --specs ./my-specs --yes --json
    """
    from compiler.deploy.publish.command import run_publish

    orders = _orders(
        dry_run=dry_run,
        yes=yes,
        now=now,
        idle=idle,
        note=note,
        for_new_pods=for_new_pods,
        create_repo=create_repo,
        wait=not no_wait,
        endpoints=endpoint,
        transport=transport,
        as_json=as_json,
    )
    raise typer.Exit(run_publish(_subject(profile, specs, only_specs, as_json), orders))


def rollback(
    profile: Profile, to: Annotated[int | None, typer.Option("--to", min=1, help="Number of the publication to go back to. Absent: the last good one.", show_default=False)] = None,
    dry_run: DryRun = False, yes: Yes = False, now: Now = False, idle: Idle = False, note: Note = "", no_wait: NoWait = False, endpoint: Endpoints = None,
    transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Publish once more what was good before, under a new number. The Hub's history is the memory; nothing is lost.

    Examples:

      podwright rollback nemotron-ada

      podwright rollback nemotron-ada --to 11 --now
    """
    from compiler.deploy.publish.command import run_rollback

    orders = _orders(
        dry_run=dry_run,
        yes=yes,
        now=now,
        idle=idle,
        note=note,
        wait=not no_wait,
        endpoints=endpoint,
        transport=transport,
        as_json=as_json,
        to=to,
    )
    raise typer.Exit(run_rollback(_subject(profile, specs, only_specs, as_json), orders))


def journal(
    profile: Profile, follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, and print what comes new.")] = False, pod: PodId = None,
    lines: Annotated[int, typer.Option("--lines", min=1, max=5000, help="How many lines of the journal.")] = 100,
    specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show what a pod mirrored to the Hub: its journal, its GPUs, the ends of its logs. Also of a pod that is gone.

    Examples:

      podwright journal nemotron-ada

      podwright journal nemotron-ada -f --lines 20

      podwright journal nemotron-ada --pod 7h9k2m4n6p --json
    """
    from compiler.deploy.publish.journal import run_journal
    from compiler.resolve import resolve_plan

    if follow and as_json:
        raise typer.BadParameter("prints lines as they come; --json prints one document", param_hint="--follow")
    plan = resolve_plan(usable_specset(spec_store(specs, only_specs), profile, as_json))
    raise typer.Exit(run_journal(plan, pod=pod, lines=lines, follow=follow, as_json=as_json))


def secrets(
    profile: Profile,
    names: Annotated[list[str] | None, typer.Argument(help="Variables; none means all of the profile.", show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 when one that the pod cannot do without is missing at the provider.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Make those that are missing; values come from the environment or are asked for without being shown.")] = False,
    rotate: Annotated[bool, typer.Option("--rotate", help="Give them another value at the provider.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Ask each pod, by a salted hash, whether it serves with the values that are set here.")] = False,
    yes: Yes = False, endpoint: Endpoints = None, transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show which secrets a profile needs and which exist at the provider; make them; change them; prove that pods have them. Never prints one.

    Examples:

      podwright secrets nemotron-ada --check

      podwright secrets nemotron-ada --create

      podwright secrets nemotron-ada HF_TOKEN --rotate

      podwright secrets nemotron-ada --prove --json
    """
    from compiler.deploy import secret_commands
    from compiler.resolve import resolve_plan

    deeds: dict[secret_commands.Deed, bool] = {"check": check, "create": create, "rotate": rotate, "prove": prove}
    chosen = [deed for deed, is_wanted in deeds.items() if is_wanted]
    if len(chosen) > 1:
        raise typer.BadParameter("one of --check, --create, --rotate and --prove", param_hint=f"--{chosen[1]}")
    plan = resolve_plan(usable_specset(spec_store(specs, only_specs), profile, as_json))
    orders = secret_commands.Orders(chosen[0] if chosen else "list", tuple(names or ()), yes, tuple(endpoint or ()), transport, as_json)
    raise typer.Exit(secret_commands.run_secrets(plan, orders))


def _orders(*, now: bool, idle: bool, endpoints: list[str] | None, **others: object) -> Orders:
    from compiler.deploy.publish.command import Orders

    if now and idle:
        raise typer.BadParameter("says the opposite of --now", param_hint="--idle")
    return Orders(now=now, when="idle" if idle else None, endpoints=tuple(endpoints or ()), **others)  # type: ignore[arg-type]


def _subject(profile: str, specs: list[Path], only_specs: bool, as_json: bool) -> Subject:
    """The compiled profile. Refuses with the findings when it does not compile."""
    from compiler.deploy.publish.command import Subject
    from compiler.load import data_root, image_files
    from compiler.pipeline import compiled

    store = spec_store(specs, only_specs)
    specset = usable_specset(store, profile, as_json)
    files = image_files(data_root())
    result = compiled(specset, files)
    if result.bundle is None:
        refuse(list(result.diagnostics), store, as_json)
    return Subject(result.plan, result.bundle, files, lambda: _usual_outage(store, specset))


def _usual_outage(store: SpecStore, specset: SpecSet) -> Outage | None:
    """The newest start of this model on this hardware that the evidence tells of; None where nobody measured one."""
    from compiler.deploy.publish.effect import Outage
    from compiler.schema import EvidenceSpec

    card = re.sub(r"^[0-9]+x", "", specset.profile.hardware or "")
    found: tuple[str, float, str] | None = None
    for topic in store.names("evidence"):
        spec, _ = store.spec("evidence", topic)
        for m in spec.records if isinstance(spec, EvidenceSpec) else ():
            same = m.metric == "boot_s" and m.model == specset.profile.model and m.hardware == card
            if same and isinstance(m.value, (int, float)) and (found is None or m.date > found[0]):
                found = (m.date, float(m.value), f"{topic}/{m.id}")
    return Outage(found[1], f"measured on {found[0]}, {found[2]}") if found else None
