"""Which pods follow a profile, and each of them seen once: the provider's word, and the pod's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from pod.contract import Manifest

from compiler.deploy.connection import Transport, connected
from compiler.deploy.failures import DockerUnavailable
from compiler.deploy.finding import matching
from compiler.deploy.provider import PodStatus
from compiler.deploy.provider_errors import KeyMissing, Unanswered
from compiler.deploy.publish.effect import Effect, Outage, effect_between
from compiler.deploy.publish.pods import PodClient, Report, Unseen
from compiler.deploy.publish.release import Release
from compiler.deploy.refusals import EndpointKeyMissing, WrongTarget
from compiler.deploy.state_file import StateFile
from compiler.plan import Plan

_AWAY = (PodStatus.EXITED, PodStatus.ERROR, PodStatus.TERMINATED)


@dataclasses.dataclass(frozen=True, slots=True)
class Follower:
    """One pod. `seen` is its own word; `manifest` is what it has in force, None where nobody can tell. `away`: it is not running now."""

    name: str
    client: PodClient
    seen: Report | Unseen
    manifest: Manifest | None
    away: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """What one pod will do with a release. `effect` is None where its manifest is not known. `failed_before` says why it went back from
    this very manifest once, so that it refuses it now; `astray` why it will not see what is published here."""

    follower: Follower
    effect: Effect | None
    outage: Outage | None
    runtime: bool
    failed_before: str = ""
    astray: str = ""

    @property
    def busy(self) -> int:
        """Requests that run or wait in it now."""
        return self.follower.seen.busy if isinstance(self.follower.seen, Report) else 0


@contextmanager
def following_pods(
    plan: Plan, endpoints: Sequence[str], environ: Mapping[str, str], *, transport: Transport, file: StateFile, say: Callable[[str], None]
) -> Iterator[list[Follower]]:
    """The profile's pods: those at `endpoints`, else those that the provider lists. None, with a word why, where no provider can be asked.

    Raises EndpointKeyMissing, ProviderError.
    """
    places = places_of(plan, endpoints, environ, transport, file, say)
    name = plan.bridge.api_key_env
    key = values_here(plan.target, environ).get(name, "").strip() or None if name else None
    if places and name and key is None:
        raise EndpointKeyMissing(
            f"{name} is not set",
            "Pods tell what they have in force, and whether they are busy, to holders of the endpoint's key alone.",
            f"Export {name} with the value that the pods were given.",
        )
    found: list[Follower] = []
    try:
        for pod, url, away in places:
            found.append(_looked(pod, PodClient(url, key), away, plan))
        yield found
    finally:
        for follower in found:
            follower.client.close()


def forecast(follower: Follower, release: Release, published: Manifest | None, usual: Callable[[], Outage | None]) -> Forecast:
    """What a pod will do. `published` is what lies in the repository now, `usual` looks up the outage by the evidence."""
    report = follower.seen if isinstance(follower.seen, Report) else None
    old = follower.manifest
    if old is None and report is not None and published is not None and published.sha256() == report.manifest:
        old = published
    if old is None:
        return Forecast(follower, None, None, False)
    effect = effect_between(old, release.manifest, report.engine if report else None)
    outage = (_measured(report) or usual()) if effect is Effect.ENGINE else None
    failed = report.quarantined.get(release.manifest.sha256(), "") if report else ""
    return Forecast(
        follower,
        effect,
        outage,
        report is not None and release.runtime not in (None, report.runtime),
        failed,
        _astray(old, release.manifest),
    )


def _astray(old: Manifest, new: Manifest) -> str:
    """Why a pod that runs `old` does not look where `new` is published; empty when it does."""
    now, wanted = old.supervisor.follow, new.supervisor.follow
    if now is None:
        return "it follows nothing: deploy the pod anew"
    if wanted is not None and (now.repo, now.path) != (wanted.repo, wanted.path):
        return f"it follows {now.repo}/{now.path}: publish there once, or deploy the pod anew"
    return ""


def _measured(report: Report | None) -> Outage | None:
    """The outage by what this very pod took for its last start."""
    return Outage(report.restart_s, "measured by this pod at its last start") if report and report.restart_s else None


def values_here(target: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Values of secrets on this machine: the environment's, and for containers here also those of the file that they are given."""
    if target != "docker":
        return environ
    from compiler.deploy.docker_container import secret_values

    return secret_values(environ)


def places_of(
    plan: Plan, endpoints: Sequence[str], environ: Mapping[str, str], transport: Transport, file: StateFile, say: Callable[[str], None]
) -> list[tuple[str, str, bool]]:
    """Name, address and whether it is stopped, of each pod: those at `endpoints`, else those that the provider lists."""
    if endpoints:
        return [(url, url, False) for url in endpoints]
    try:
        with closing(connected(plan.target, environ, transport=transport, on_wait=say)) as provider:
            pods = matching(plan.profile, file.read(), provider.pods())
            return [(pod.id, provider.endpoint(pod, plan.network.endpoint_port), pod.status in _AWAY) for pod in pods]
    except (KeyMissing, WrongTarget, DockerUnavailable, Unanswered) as failure:
        if isinstance(failure, Unanswered) and plan.target != "docker":
            raise  # A provider that rents is there, and its pods would be changed unseen.
        say(f"pods are not known: {failure.what}; name them with --endpoint URL to see and follow them")
        return []


def _looked(name: str, client: PodClient, away: bool, plan: Plan) -> Follower:
    if away:
        return Follower(name, client, Unseen("it is stopped; it asks at its next start"), None, True)
    if plan.bridge.mode == "off":
        return Follower(name, client, Unseen("without a bridge a pod cannot be asked from outside; its journal tells"), None)
    seen = client.report()
    manifest = client.manifest() if isinstance(seen, Report) else None
    return Follower(name, client, seen, manifest if isinstance(manifest, Manifest) else None)
