"""`podwright stop, start, restart, terminate, logs` and `sweep`: what is done to pods that exist."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from compiler.console import print_json
from compiler.deploy.clock import Clock, Pace, SystemClock
from compiler.deploy.connection import Transport, connected, provider_name
from compiler.deploy.display import Shown, duration, money
from compiler.deploy.failures import DeployError
from compiler.deploy.finding import forgotten, found_pod
from compiler.deploy.naming import profile_of
from compiler.deploy.outcome import OK, failed
from compiler.deploy.provider import Action, LogLine, LogSource, Pod, PodStatus, Provider
from compiler.deploy.provider_errors import Missing, Refused, WrongState
from compiler.deploy.refusals import NotAgreed
from compiler.deploy.runpod_common import HOST_FULL
from compiler.deploy.state_file import FOLDER, Busy, PodRecord, StateFile, known_profiles
from compiler.deploy.troubles import GONE, NO_GPU, PodTrouble
from compiler.deploy.waiting import LOOK_S, PACE_S, fresh
from compiler.diagnostics import printable
from compiler.secrets import masked

# A stopped pod comes up within a minute or two, or its host has no room for it.
LONGEST_START_S = 300.0
_QUESTIONS: dict[Action, str] = {
    "stop": "Stop pod {pod} of {profile}? Its container disk is erased and it may not get its GPU back; its GPU is no longer billed.",
    "start": "Start pod {pod} of {profile}? This spends {price} an hour until it is stopped.",
    "restart": "Restart the container of pod {pod} of {profile}? Requests that run now end, and the model loads again.",
    "terminate": "Terminate pod {pod} of {profile} for good? Nothing of it is billed any more.",
}
_OWN_QUESTIONS: dict[Action, str] = {
    "stop": "Stop container {pod} of {profile}? Requests that run now end; `podwright start` brings it back.",
    "start": "Start container {pod} of {profile}?",
    "restart": "Restart container {pod} of {profile}? Requests that run now end, and the model loads again.",
    "terminate": "Remove container {pod} of {profile} for good? Its caches stay in their volumes.",
}


def run_action(
    profile: str,
    action: Action,
    *,
    pod_id: str | None,
    yes: bool,
    transport: Transport,
    as_json: bool,
    folder: Path = FOLDER,
    clock: Clock | None = None,
) -> int:
    """Do one thing to a profile's pod, after asking. Gives the exit code."""
    display, time, file = Shown(agreed=yes), clock or SystemClock(), StateFile(profile, folder)
    try:
        with closing(connected(provider_name(file), os.environ, transport=transport, clock=time, on_wait=display.say)) as provider:
            record = None if pod_id else found_pod(provider, profile, file)
            target = provider.pod(pod_id) if pod_id else _recorded(record)
            questions = _QUESTIONS if provider.name == "runpod" else _OWN_QUESTIONS
            if not display.ask(questions[action].format(pod=target.id, profile=profile, price=money(target.price_usd_h))):
                raise NotAgreed("nobody said yes", "Nothing was changed.", "Answer y, or give --yes where nobody can be asked.")
            with file.locked():
                _done(provider, profile, target, action)
                if action == "terminate":
                    forgotten(file, target.id)
            past = _past(action, rented=provider.name == "runpod")
            if action == "start":
                _check_gpus(provider, profile, target, record, time)
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    if as_json:
        print_json({"ok": True, "profile": profile, "pod": target.id, "action": action})
    else:
        print(f"pod {target.id} of {profile}: {past}")
    return OK


def run_logs(
    profile: str,
    *,
    tail: int,
    source: LogSource | None,
    follow: bool,
    transport: Transport,
    folder: Path = FOLDER,
    clock: Clock | None = None,
) -> int:
    """Print a pod's log; with `follow` until the pod is gone or the reader leaves."""
    time, file = clock or SystemClock(), StateFile(profile, folder)
    before: tuple[LogLine, ...] = ()
    pace = Pace(time, PACE_S)
    try:
        with closing(connected(provider_name(file), os.environ, transport=transport, clock=time)) as provider:
            record = found_pod(provider, profile, file)
            while True:
                pace.wait()
                lines = []
                for line in provider.logs(record.id, tail=tail, source=source, follow=follow and not before):
                    lines.append(line)
                    if follow and not before:
                        _print_line(line.at, line.source, line.text)
                if not follow or before:
                    for line in fresh(before, lines):
                        _print_line(line.at, line.source, line.text)
                if not follow:
                    return OK
                before = tuple(lines) or before
    except Missing as failure:
        return OK if follow and before else failed(failure, as_json=False)
    except DeployError as failure:
        return failed(failure, as_json=False)


def run_sweep(*, yes: bool, dry_run: bool, transport: Transport, as_json: bool, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """Terminate pods of podwright's that no state file of this folder follows, and those whose hours are over."""
    display, time = Shown(agreed=yes), clock or SystemClock()
    stray, ended = [], []
    try:
        with closing(connected("runpod", os.environ, transport=transport, clock=time, on_wait=display.say)) as provider:
            stray = _strays(provider.pods(), folder, time.time())
            for pod, why in stray:
                age = f", {duration(time.time() - pod.created)} old" if pod.created else ""
                print(printable(f"{pod.id}  {pod.name}  {pod.status}  {money(pod.price_usd_h)}/h{age}: {why}"), file=sys.stderr)
            if stray and not dry_run:
                if not display.ask(f"Terminate {'it' if len(stray) == 1 else f'all {len(stray)} of them'}?"):
                    raise NotAgreed("nobody said yes", "Nothing was changed.", "Answer y, or give --yes where nobody can be asked.")
                ended = [pod.id for pod, _ in stray if _swept(provider, pod, folder, display)]
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    if as_json:
        print_json({"ok": True, "pods": [{"id": p.id, "name": p.name, "why": why} for p, why in stray], "terminated": ended})
    else:
        print(f"{len(stray)} to sweep, {len(ended)} terminated" if stray else "nothing to sweep")
    return OK


def _swept(provider: Provider, pod: Pod, folder: Path, display: Shown) -> bool:
    """Terminate one pod, and take it out of the file that follows it. False while another command works on that profile."""
    files = (StateFile(profile, folder) for profile in known_profiles(folder))
    owner = next((file for file in files if (followed := file.read().pod) is not None and followed.id == pod.id), None)
    if owner is None:
        provider.act(pod, "terminate")
        return True
    try:
        with owner.locked():
            provider.act(pod, "terminate")
            forgotten(owner, pod.id)
    except Busy as busy:
        display.say(f"{pod.id} is left: {busy.what}")
        return False
    return True


def _strays(pods: Sequence[Pod], folder: Path, now: float) -> list[tuple[Pod, str]]:
    """Pods with a name of ours that nobody here follows, and those that should have ended."""
    records: dict[str, PodRecord] = {}
    intents: set[str] = set()
    for profile in known_profiles(folder):
        state = StateFile(profile, folder).read()
        if state.pod is not None:
            records[state.pod.id] = state.pod
        if state.intent is not None:
            intents.add(state.intent)
    found = []
    for pod in pods:
        record = records.get(pod.id)
        if record is not None and record.end_by is not None and now > record.end_by:
            found.append((pod, "its hours (--max-hours) are over"))
        elif record is None and pod.name not in intents and profile_of(pod.name) is not None:
            found.append((pod, "no .podwright file in this folder follows it"))
    return found


def _recorded(record: PodRecord | None) -> Pod:
    """A pod as the state file has it: enough to act on it without another question."""
    assert record is not None, "a record or an id"
    return Pod(record.id, record.name, PodStatus.UNKNOWN, gpu_count=record.gpu_count, price_usd_h=record.price_usd_h)


def _done(provider: Provider, profile: str, pod: Pod, action: Action) -> None:
    """Ask for the action; a pod that is gone and a host that is full say so in their own words."""
    try:
        provider.act(pod, action)
    except Missing:
        raise PodTrouble(GONE, f"pod {pod.id} does not exist any more", profile=profile, pod_id=pod.id) from None
    except (Refused, WrongState) as problem:
        if action == "start" and HOST_FULL in problem.detail.casefold():
            raise PodTrouble(NO_GPU, f"pod {pod.id} cannot start: {problem.detail}", profile=profile, pod_id=pod.id) from None
        raise


def _check_gpus(provider: Provider, profile: str, pod: Pod, record: PodRecord | None, clock: Clock) -> None:
    """After a start: the pod must come up, and with its GPUs. Raises PodTrouble, after having stopped it, when it has none."""
    wanted, began = record.gpu_count if record else pod.gpu_count, clock.time()
    while clock.time() - began < LONGEST_START_S:
        clock.sleep(LOOK_S)
        seen = provider.pod(pod.id)
        if seen.status is PodStatus.RUNNING:
            if seen.gpu_count is not None and wanted is not None and seen.gpu_count < wanted:
                provider.act(pod, "stop")
                raise PodTrouble(
                    NO_GPU,
                    f"pod {pod.id} came up with {seen.gpu_count} GPUs instead of {wanted}; it was stopped again",
                    profile=profile,
                    pod_id=pod.id,
                )
            return
        if seen.status in (PodStatus.EXITED, PodStatus.ERROR):
            raise PodTrouble(NO_GPU, f"pod {pod.id} is {seen.status} after its start", profile=profile, pod_id=pod.id)


def _past(action: Action, *, rented: bool) -> str:
    return {
        "stop": "stopped" + ("; `podwright start` may find no free GPU on its host" if rented else ""),
        "start": "started",
        "restart": "restarting",
        "terminate": "terminated" + (", nothing is billed any more" if rented else ""),
    }[action]


def _print_line(at: str, source: LogSource, text: str) -> None:
    print(printable(masked(f"{at}  {source:<9}  {text}".strip())), flush=True)
