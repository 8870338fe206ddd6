"""Which pod belongs to a profile: by the state file, and by the provider's list where that file is lost."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable

from compiler.deploy.naming import LONGEST, PREFIX, http_port, is_name_of, record_of
from compiler.deploy.provider import Pod, Provider
from compiler.deploy.refusals import NoPod, SeveralPods
from compiler.deploy.state_file import Busy, PodRecord, State, StateFile


def no_pod(profile: str) -> NoPod:
    """The failure of a command that needs a pod."""
    return NoPod(
        f"{profile} has no pod", "Neither .podwright in this folder nor the provider's list names one.", f"Run `podwright deploy {profile}` to make one.",
    )  # fmt: skip


def matching(profile: str, state: State, pods: Iterable[Pod]) -> list[Pod]:
    """The profile's pods among those that exist."""
    known = {state.pod.id} if state.pod else set()
    return [pod for pod in pods if pod.id in known or pod.name == state.intent or is_name_of(f"{PREFIX}{profile}"[:LONGEST], pod.name)]


def found_pod(provider: Provider, profile: str, file: StateFile) -> PodRecord:
    """The profile's pod; a state file that is lost, or that missed a pod's creation, is made again. Raises NoPod, SeveralPods."""
    state = file.read()
    if state.pod is not None:
        return state.pod
    pods = matching(profile, state, provider.pods())
    if not pods:
        raise no_pod(profile)
    if len(pods) > 1:
        listed = ", ".join(f"{p.id} ({p.status})" for p in pods)
        raise SeveralPods(
            f"{len(pods)} pods carry the name of {profile}: {listed}", "Each of them may be billed, and nobody knows which one is meant.",
            f"Say which one: `podwright terminate {profile} --pod ID` ends the others.",
        )  # fmt: skip
    return rebuilt(provider, state, pods[0], file)


def rebuilt(provider: Provider, state: State, pod: Pod, file: StateFile) -> PodRecord:
    """Write the state file anew from a pod that exists; a command that is at work on it knows more, so nothing is written then."""
    record = record_of(pod, provider, http_port(pod), "", None, pod.created or pod.started or 0.0)
    with contextlib.suppress(Busy), file.locked():
        file.write(dataclasses.replace(state, pod=record, intent=None, provider=provider.name))
    return record


def forgotten(file: StateFile, pod_id: str) -> None:
    """Take a pod that is gone out of the state file."""
    with file.locked():
        state = file.read()
        if state.pod is not None and state.pod.id == pod_id:
            file.write(dataclasses.replace(state, pod=None, intent=None))

