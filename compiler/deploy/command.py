"""`podwright lock` and `podwright image`: run one, show its progress, print its result, give the exit code."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.console import print_json
from compiler.deploy.failures import DeployError
from compiler.plan import Plan
from compiler.schema.specset import SpecSet

if TYPE_CHECKING:
    from compiler.deploy.connection import Transport
    from compiler.deploy.space import SpaceImage

OK, FAILED = 0, 4


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    """Where an image is to be pushed, and the specs whose lock in `folder` is to hold its digest."""

    target: str
    specs: SpecSet
    folder: Path


def run_lock(specs: SpecSet, folder: Path, *, as_json: bool) -> int:
    """Resolve the profile's lock and write it to `folder/locks`; the exit code says failed when something stayed open."""
    from compiler.deploy.hub import HubClient
    from compiler.deploy.lock import lock_profile, lock_text, write_lock
    from compiler.deploy.registry import RegistryClient

    path = folder / "locks" / f"{specs.name}.yaml"
    try:
        with _status() as say, RegistryClient(on_wait=say) as registry:
            result = lock_profile(specs, HubClient(on_wait=say), registry, datetime.datetime.now(datetime.UTC).date().isoformat(), say)
        changed = write_lock(path, lock_text(result))
    except DeployError as failure:
        return _failed(failure, as_json=as_json, kept=f"The lock in {path} is as it was." if path.exists() else "")
    if as_json:
        print_json(result.to_json() | {"file": str(path), "changed": changed})
    else:
        for problem in result.problems:
            print(problem.formatted(), file=sys.stderr)
        print("\n".join(f"  {change}" for change in result.changes) or "  nothing changed")
        print(f"{path}: {'complete' if result.complete else 'incomplete, see above'}")
    return OK if result.complete else FAILED


def run_image(plan: Plan, bundle: Path, *, tag: str | None, network: str | None, as_json: bool, base: str | None = None, push: Push | None = None) -> int:
    """Build the image of a bundle with the Docker engine of this machine, showing each step; with `push` send it to a registry."""
    from compiler.deploy.image import BuildEvent, build_image
    from compiler.deploy.push import locked_image, push_image, push_name

    pushed, is_locked = None, False
    try:
        name = push_name(push.target, plan.image.name) if push else None
        with _status() as say:

            def show(event: BuildEvent) -> None:
                place = f"[{event.step}/{event.steps}] " if event.step is not None else ""
                if event.kind != "output" or sys.stderr.isatty():
                    say(f"{place}{event.text}")

            built = build_image(plan, bundle, tag=tag or name, on_event=show, network=network, base_override=base)
            if push and name:
                pushed = push_image(built.tag, name, say)
                is_locked = locked_image(push.specs, pushed, push.folder, datetime.datetime.now(datetime.UTC).date().isoformat())
    except DeployError as failure:
        return _failed(failure, as_json=as_json)
    if as_json:
        print_json(built.to_json() | ({"pushed": pushed.reference, "digest": pushed.digest, "locked": is_locked} if pushed else {}))
        return OK
    for layer in built.layers:
        if layer.size_bytes >= 1_000_000:
            print(f"  {layer.size_bytes / 1e9:7.3f} GB  {layer.created_by[:110]}")
    for warning in built.warnings:
        print(f"  warning: {warning}", file=sys.stderr)
    print(f"{built.tag}: {built.size_bytes / 1e9:.2f} GB in {built.seconds:.0f} s, {built.id}")
    if pushed and push:
        print(f"pushed: {pushed.reference}")
        print(in_the_lock(plan.profile, pushed.name, push.folder, is_locked))
    return OK


def run_space_image(plan: Plan, bundle: Path, space: str | None, push: Push, *, transport: Transport, as_json: bool) -> int:
    """Build the image of a bundle in a Docker Space of the Hub, and keep what pods need to pull it."""
    from compiler.deploy.push import Pushed, locked_image
    from compiler.deploy.registry import RegistryClient
    from compiler.deploy.space import REGISTRY, Space

    try:
        with _status() as say:
            builder = Space(space, plan.profile, on_wait=say)
            built = builder.build(plan, bundle, say)
            with RegistryClient(login=(REGISTRY, built.account, builder.token()), on_wait=say) as registry:
                pushed = Pushed(built.name, registry.digest(built.name))
            is_locked = locked_image(push.specs, pushed, push.folder, datetime.datetime.now(datetime.UTC).date().isoformat())
            credential, note = _credential(plan, built, builder.token(), transport, say)
    except DeployError as failure:
        return _failed(failure, as_json=as_json)
    if as_json:
        told = {"ok": True, "space": built.space, "commit": built.commit, "pushed": pushed.reference, "digest": pushed.digest, "locked": is_locked}
        print_json(told | {"registry_auth": credential, "note": note, "seconds": built.seconds})
        return OK
    print(f"{built.space} built {pushed.reference} in {built.seconds / 60:.0f} min")
    print(in_the_lock(plan.profile, pushed.name, push.folder, is_locked))
    if credential and plan.deploy.registry_auth != credential:
        print(f"write `deploy: {{registry_auth: {credential}}}` into the profile: it is the credential that pods pull it with")
    if note:
        print(f"warning: {note}", file=sys.stderr)
    return OK


def _credential(plan: Plan, built: SpaceImage, token: str, transport: Transport, say: Callable[[str], None]) -> tuple[str | None, str]:
    """The provider's credential for the Space's private image; without one, why not: the image is there all the same."""
    from compiler.deploy.connection import connected
    from compiler.deploy.space import kept_credential

    if plan.target != "runpod":
        return None, f"log in with `docker login registry.hf.space`, account {built.account}, the Hub's token as the password"
    try:
        with closing(connected(plan.target, os.environ, transport=transport, on_wait=say)) as provider:
            return kept_credential(provider, built, token), ""
    except DeployError as failure:
        return None, f"the registry credential was not made at RunPod: {failure.what}. {failure.fix} Then run the same command again."


def in_the_lock(profile: str, name: str, folder: Path, is_locked: bool) -> str:
    """What is left to do until pods of the profile start from an image."""
    if is_locked:
        return f"{folder / 'locks' / f'{profile}.yaml'} has its digest; pods of {profile} start from it"
    return f"to start pods of {profile} from it, write `container: {{name: {name}}}` into the profile, then run the same command again"


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """A function that shows the latest line: in place on a terminal, one line each elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status("starting") as status:
        yield lambda text: status.update(escape(text))


def _failed(failure: DeployError, *, as_json: bool, kept: str = "") -> int:
    if as_json:
        print_json({"ok": False} | failure.to_json())
    else:
        print(failure.formatted() + (f"\n{kept}" if kept else ""), file=sys.stderr)
    return FAILED
