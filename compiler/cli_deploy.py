"""Commands that apply a bundle to a provider: `deploy`, and everything that is done to a pod afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from compiler.cli_options import Json, OnlySpecs, Out, Profile, Specs, profile_names
from compiler.command_support import refuse, spec_store, usable_specset

if TYPE_CHECKING:
    from compiler.deploy.provider import Action, Wanted

Transport = Annotated[
    Literal["v2", "v1", "graphql"],
    typer.Option("--transport", help="RunPod's interface: REST v2, or the older ones for accounts that need them."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]
Profiles = Annotated[
    list[str] | None,
    typer.Argument(help="Profile names; none means all that have a pod.", autocompletion=profile_names, show_default=False),
]
PodId = Annotated[str | None, typer.Option("--pod", help="A pod by its id, where a profile has several.", show_default=False)]
Api = Literal["v2", "v1", "graphql"]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (deploy, wait, status, logs, stop, start, restart, terminate, stock, cost, sweep):
        app.command()(command)


def deploy(
    profile: Profile,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    yes: Yes = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a pod that fails, for a closer look; it bills.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Terminate the profile's pod when it was made from something else.")] = False,
    no_template: Annotated[bool, typer.Option("--no-template", help="Leave the template in the provider's console alone.")] = False,
    unlocked: Annotated[bool, typer.Option("--unlocked", help="Deploy an image by its tag when the lock has no digest.")] = False,
    max_hours: Annotated[float | None, typer.Option("--max-hours", min=0.1, help="After so many hours `podwright sweep` ends the pod.", show_default=False)] = None,
    out: Out = Path("build"), transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Rent a pod for a profile, wait until it serves, and prove it. Spends money; asks first. On a failure nothing is left that bills.

    Examples:

      podwright deploy nemotron-ada --dry-run

      podwright deploy nemotron-ada --max-hours 8

      podwright deploy nemotron-ada --yes --json
    """
    from compiler.deploy.pod_commands import Orders, run_deploy

    wanted = _wanted(profile, specs, only_specs, as_json, None if dry_run else out)
    orders = Orders(
        dry_run=dry_run,
        yes=yes,
        keep=keep,
        replace=replace,
        template=not no_template,
        unlocked=unlocked,
        max_hours=max_hours,
        transport=transport,
        as_json=as_json,
    )
    raise typer.Exit(run_deploy(wanted, orders))


def wait(profile: Profile, transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False) -> None:
    """Wait until a profile's pod serves, and prove it. The pod is left as it is, whatever comes out.

    Examples:

      podwright wait nemotron-ada
    """
    from compiler.deploy.pod_commands import run_wait

    raise typer.Exit(run_wait(_wanted(profile, specs, only_specs, as_json, None).plan, transport=transport, as_json=as_json))


def status(profiles: Profiles = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """Show pods: state, host, price, cost so far, address. Spends nothing.

    Examples:

      podwright status

      podwright status nemotron-ada --json
    """
    from compiler.deploy.pod_queries import run_status

    raise typer.Exit(run_status(profiles or [], transport=transport, as_json=as_json))


def logs(
    profile: Profile,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the pod is gone.")] = False,
    tail: Annotated[int, typer.Option("--tail", min=1, max=5000, help="How many lines of the past.")] = 200,
    source: Annotated[
        Literal["system", "container"] | None,
        typer.Option("--source", help="Only the host's lines or only the container's.", show_default=False),
    ] = None,
    transport: Transport = "v2",
) -> None:
    """Print a pod's log: the host's lines about image and container, and what runs inside.

    Examples:

      podwright logs nemotron-ada -f

      podwright logs nemotron-ada --source system --tail 50
    """
    from compiler.deploy.pod_actions import run_logs

    raise typer.Exit(run_logs(profile, tail=tail, source=source, follow=follow, transport=transport))


def stop(profile: Profile, yes: Yes = False, pod: PodId = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """Stop a pod: its GPU is no longer billed, its container disk is erased. It may find no free GPU when it is started again.

    Examples:

      podwright stop nemotron-ada
    """
    raise _acted(profile, "stop", yes, pod, transport, as_json)


def start(profile: Profile, yes: Yes = False, pod: PodId = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """Start a stopped pod on its host. Spends money. A host without a free GPU is said so; `podwright deploy` then makes a new pod.

    Examples:

      podwright start nemotron-ada
    """
    raise _acted(profile, "start", yes, pod, transport, as_json)


def restart(profile: Profile, yes: Yes = False, pod: PodId = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """Restart a pod's container. Requests that run end, and the model loads again.

    Examples:

      podwright restart nemotron-ada
    """
    raise _acted(profile, "restart", yes, pod, transport, as_json)


def terminate(profile: Profile, yes: Yes = False, pod: PodId = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """End a pod for good. Nothing of it is billed any more.

    Examples:

      podwright terminate nemotron-ada

      podwright terminate nemotron-ada --pod 7h9k2m4n6p --yes
    """
    raise _acted(profile, "terminate", yes, pod, transport, as_json)


def stock(
    text: Annotated[str | None, typer.Argument(help="A profile, or a part of a card's name.", autocompletion=profile_names, show_default=False)] = None,
    cuda: Annotated[str | None, typer.Option("--cuda", help='Hosts of that CUDA version: "13.0", or ">=13.0".', show_default=False)] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, max=64, help="GPUs in the pod.", show_default=False)] = None,
    cloud: Annotated[Literal["SECURE", "COMMUNITY"], typer.Option("--cloud", help="Which cloud.")] = "SECURE",
    everything: Annotated[bool, typer.Option("--all", help="Also cards that are full.")] = False,
    transport: Transport = "v2", specs: Specs = [], only_specs: OnlySpecs = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Show cards: exact ids, memory, price, stock by data center and CUDA version. Spends nothing.

    Examples:

      podwright stock nemotron-ada

      podwright stock 4090 --count 2 --cuda ">=13.0"

      podwright stock --all --cloud COMMUNITY
    """
    from compiler.deploy.candidates import cuda_pin
    from compiler.deploy.pod_queries import Search, run_stock
    from compiler.deploy.provider import CudaPin, StockQuestion

    pin = CudaPin()
    if cuda is not None:
        pin = CudaPin(floor=cuda.removeprefix(">=").strip()) if cuda.startswith(">=") else CudaPin((cuda.strip(),))
    search = Search(StockQuestion(cloud, count or 1, pin), text=text, everything=everything)
    if text is not None and text in spec_store(specs, only_specs).names("profile"):
        plan = _wanted(text, specs, only_specs, as_json, None).plan
        question = StockQuestion(cloud, count or plan.hardware.count, pin if cuda is not None else cuda_pin(plan))
        search = Search(question, ids=plan.hardware.runpod_ids, centers=plan.deploy.data_centers, everything=everything)
    raise typer.Exit(run_stock(search, transport=transport, as_json=as_json))


def cost(profiles: Profiles = None, transport: Transport = "v2", as_json: Json = False) -> None:
    """Show what pods cost: the provider's billing records, and price by age beside them. Spends nothing.

    Examples:

      podwright cost

      podwright cost nemotron-ada --json
    """
    from compiler.deploy.pod_queries import run_cost

    raise typer.Exit(run_cost(profiles or [], transport=transport, as_json=as_json))


def sweep(
    yes: Yes = False, dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False, transport: Transport = "v2", as_json: Json = False,
) -> None:  # fmt: skip
    """Terminate pods of podwright's that no .podwright file in this folder follows, and those past their --max-hours. Asks first.

    Examples:

      podwright sweep --dry-run

      podwright sweep --yes
    """
    from compiler.deploy.pod_actions import run_sweep

    raise typer.Exit(run_sweep(yes=yes, dry_run=dry_run, transport=transport, as_json=as_json))


def _acted(profile: str, action: Action, yes: bool, pod: str | None, transport: Api, as_json: bool) -> typer.Exit:
    from compiler.deploy.pod_actions import run_action

    return typer.Exit(run_action(profile, action, pod_id=pod, yes=yes, transport=transport, as_json=as_json))


def _wanted(profile: str, specs: list[Path], only_specs: bool, as_json: bool, out: Path | None) -> Wanted:
    """The compiled profile; its bundle is written where `out` says. Refuses with the findings when it does not compile."""
    from compiler.artifact import written
    from compiler.deploy.provider import Wanted
    from compiler.load import data_root, image_files
    from compiler.pipeline import compiled

    store = spec_store(specs, only_specs)
    result = compiled(usable_specset(store, profile, as_json), image_files(data_root()))
    if result.bundle is None:
        refuse(list(result.diagnostics), store, as_json)
    if out is not None:
        written(result.bundle, out / profile)
    files = result.bundle.by_path()
    return Wanted(result.plan, tuple(json.loads(files["start-command.json"].content)), files["manifest.json"].sha256)
