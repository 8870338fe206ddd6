"""The pure parts of publishing: what a pod will do, against the pod's own decision; how a pod ended up; texts."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pod.contract import Desktop, KvStore, Manifest, Swap
from pod.publication import payload_path, unsigned, verify
from pod.supervisor.publishing import action_between
from pod.supervisor.state import Target
from pod.supervisor.views import restart_s

from compiler.deploy.publish.checks import refuse_what_hurts
from compiler.deploy.publish.effect import Effect, Outage, effect_between
from compiler.deploy.publish.followers import Follower, Forecast
from compiler.deploy.publish.forecast_text import forecast_words
from compiler.deploy.publish.pods import PodClient, Report, Unseen, report_of
from compiler.deploy.publish.refusals import EndpointBusy, NeedsNewPod, WentBack
from compiler.deploy.publish.release import differences, release_of
from compiler.deploy.publish.waiting import Aim, ending
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from tests.support import specset
from tests.unit.pod.manifests import example_manifest, with_launch

OLD = example_manifest()
OTHER = dataclasses.replace(OLD.engine, name="q", served_names=("n",))
ACTIONS = {"nothing": Effect.NOTHING, "settings": Effect.SETTINGS, "bridge": Effect.BRIDGE, "engine": Effect.ENGINE, "pod": Effect.POD}


def part(**changes: Any) -> Callable[[Manifest], Manifest]:
    def made(manifest: Manifest) -> Manifest:
        found = {name: dataclasses.replace(getattr(manifest, name), **values) for name, values in changes.items()}
        return dataclasses.replace(manifest, **found)

    return made


CHANGES: dict[str, Callable[[Manifest], Manifest]] = {
    "compiler": lambda m: dataclasses.replace(m, compiler="9.9"),
    "watchdog": lambda m: part(supervisor={"watchdog": dataclasses.replace(m.supervisor.watchdog, probe_tokens=5)})(m),
    "ping": part(bridge={"ping_s": 5.0}), "mode": part(bridge={"mode": "native"}), "port": part(bridge={"port": 9}), "host": part(bridge={"host": "127.0.0.1"}), "off": part(bridge={"mode": "off"}),
    "argv": lambda m: with_launch(m, argv=(*m.engine.launch.argv, "--x")), "env": lambda m: with_launch(m, env={"A": "2"}), "names": part(engine={"served_names": ("m", "z")}),
    "window": part(engine={"context_window": 9}), "image": part(pod={"image": "i:2"}), "disk": part(pod={"disk_gb": 9}), "desktop": part(pod={"desktop": Desktop(6080, "P")}),
    "store": lambda m: dataclasses.replace(m, kv_store=KvStore(("lmcache",), 8, 256, 5555, 8079)), "swap": lambda m: dataclasses.replace(m, swap=Swap((OTHER,), False)),
    "reason": lambda m: with_launch(m, config_patches=(dataclasses.replace(m.engine.launch.config_patches[0], reason="another"),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("back", [False, True])
def test_the_forecast_is_what_the_pod_decides(name: str, back: bool) -> None:
    pair = (OLD, CHANGES[name](OLD))
    old, new = pair[::-1] if back else pair
    assert effect_between(old, new) is ACTIONS[action_between(Target(old, "p", "a"), Target(new, "p", "b"))]


@pytest.mark.parametrize("name", CHANGES)
def test_the_forecast_knows_of_an_engine_that_was_swapped_in(name: str) -> None:
    old = dataclasses.replace(OLD, swap=Swap((OTHER,), False))
    new = CHANGES[name](old)
    kept = "q" if new.swap and any(e.name == "q" for e in new.swap.others) else "p"
    assert effect_between(old, new, "q") is ACTIONS[action_between(Target(old, "q", "a"), Target(new, kept, "b"))]


def test_a_change_that_follows_no_swap_is_the_new_first_engine() -> None:
    first = dataclasses.replace(OLD, swap=Swap((OTHER,), False))
    turned = dataclasses.replace(OLD, engine=OTHER, swap=Swap((OLD.engine,), False))
    assert effect_between(first, turned, "p") is Effect.ENGINE is ACTIONS[action_between(Target(first, "p", "a"), Target(turned, "q", "b"))]


def test_the_outage_is_that_of_the_steps_without_an_engine() -> None:
    steps = {"secrets": 1.0, "argv": 9.0, "weights": 300.0, "drain": 2.0, "stop": 3.0, "prepare": 1.0, "start": 100.0}
    begun = {"kind": "change", "message": "reload"}
    whole = [begun, *({"kind": "phase", "phase": step, "seconds": seconds} for step, seconds in steps.items()), {"kind": "serving", "seconds": 420.0}]
    assert restart_s(whole) == 110.0
    assert restart_s([*whole, begun, {"kind": "phase", "phase": "argv", "seconds": 5.0}]) == 110.0  # a reload that was given up
    assert restart_s(whole[:-1]) is None


def report(**changes: Any) -> Report:
    status: dict[str, Any] = {
        "state": "serving", "detail": "", "engine": {"name": "p", "manifest": "old", "sequence": 3}, "publication": {"sequence": 3, "pending": None}, "change": None,
        "load": {"running": 0, "waiting": 0}, "quarantined": [], "good": {"manifest": "old"}, "restart_s": 160.0, "notice": "", "last": [], "runtime": None, "levers": [], "follow": "nothing new",
    }  # fmt: skip
    return report_of(status | changes)


AIM = Aim(4, "new", None)
IN_FORCE = {"engine": {"name": "p", "manifest": "new", "sequence": 4}, "publication": {"sequence": 4, "pending": None}}


@pytest.mark.parametrize("changes, end", [
    ({}, None),
    ({"change": {"kind": "reload"}, "publication": {"sequence": 4, "pending": {}}}, None),
    (IN_FORCE, "serving"),
    (IN_FORCE | {"state": "reloading", "change": {"kind": "reload"}}, None),
    (IN_FORCE | {"state": "fatal", "detail": "gated"}, "fatal"),
    ({"quarantined": [{"manifest": "new", "reason": "out of memory"}]}, "back"),
    ({"publication": {"sequence": 5, "pending": None}}, "overtaken"),
    ({"last": [{"at": "t1", "kind": "refused", "message": "needs a new pod"}]}, "refused"),
    ({"last": [{"at": "t0", "kind": "refused", "message": "an older one"}]}, None),
])  # fmt: skip
def test_how_a_pod_ended_up(changes: dict[str, Any], end: str | None) -> None:
    before = report(last=[{"at": "t0", "kind": "refused", "message": "an older one"}])
    found = ending(AIM, before, report(**changes))
    assert (found[0] if found else None) == end


def test_a_new_runtime_must_be_the_one_that_runs() -> None:
    assert ending(Aim(4, "new", "rt"), report(), report(**IN_FORCE)) is None
    assert ending(Aim(4, "new", "rt"), report(), report(**IN_FORCE, runtime="rt")) is not None


@pytest.mark.parametrize("status", [{}, {"state": 5, "engine": [], "load": None, "restart_s": "x", "last": [None, 1], "quarantined": "x", "levers": {}}, {"state": "\x1b[31mred\n"}])
def test_a_status_is_never_trusted(status: dict[str, Any]) -> None:
    found = report_of(status)
    assert found.sequence == 0 and "\x1b" not in found.state + found.detail


@pytest.mark.parametrize("answer, said", [
    (httpx.Response(401, json={"error": {"message": "invalid x-api-key"}}), "refuses the key"),
    (httpx.Response(404, json={"error": {"message": "There is no /pod/status here."}}), "older than this podwright"),
    (httpx.Response(503, json={"error": {"message": "The pod's supervisor does not answer"}}), "supervisor does not answer"),
    (httpx.Response(200, text="<html>login</html>"), "it answers 200"),
    (httpx.Response(200, json={"hello": 1}), "something else answers"),
    (httpx.Response(200, content=b"x" * (5 << 20)), "larger than any status"),
    (httpx.Response(502, json={"error": {"message": "sk-secret-key is wrong"}}), "[hidden: the key]"),
])  # fmt: skip
def test_a_pod_that_cannot_be_seen_says_why(answer: httpx.Response, said: str) -> None:
    client = PodClient("http://pod", "sk-secret-key", transport=httpx.MockTransport(lambda request: answer))
    found = client.report()
    assert isinstance(found, Unseen) and said in found.reason and "sk-secret-key" not in found.reason


def forecast_of(effect: Effect, busy: int = 0, failed: str = "") -> Forecast:
    follower = Follower("pod1", PodClient("http://pod", None), report(load={"running": busy, "waiting": 0}), OLD)
    return Forecast(follower, effect, Outage(160.0, "measured by this pod at its last start") if effect is Effect.ENGINE else None, False, failed)


def test_who_uses_a_busy_endpoint_is_not_cut_off_unasked() -> None:
    busy = [forecast_of(Effect.ENGINE, 2)]
    with pytest.raises(EndpointBusy, match="2 running requests"):
        refuse_what_hurts("p", busy, "now", now=False, for_new_pods=False)
    refuse_what_hurts("p", busy, "now", now=True, for_new_pods=False)
    refuse_what_hurts("p", busy, "idle", now=False, for_new_pods=False)
    refuse_what_hurts("p", [forecast_of(Effect.ENGINE, 0), forecast_of(Effect.BRIDGE, 5)], "now", now=False, for_new_pods=False)


def test_what_no_pod_can_become_names_the_next_step() -> None:
    with pytest.raises(NeedsNewPod) as refusal:
        refuse_what_hurts("p", [forecast_of(Effect.POD)], "idle", now=True, for_new_pods=False)
    assert "podwright deploy p --replace" in refusal.value.fix
    refuse_what_hurts("p", [forecast_of(Effect.POD)], "idle", now=False, for_new_pods=True)


def test_what_failed_before_is_not_published_again() -> None:
    with pytest.raises(WentBack, match="out of memory"):
        refuse_what_hurts("p", [forecast_of(Effect.ENGINE, 0, "out of memory")], "idle", now=False, for_new_pods=False)


def test_the_words_of_a_forecast() -> None:
    words = forecast_words(forecast_of(Effect.ENGINE, 1), "idle")
    assert words == (
        "serving, publication 3 in force -> engine restart, about 2 min 40 s without answers (measured by this pod at its last start); 1 request now, it waits for quiet"
    )
    assert forecast_words(forecast_of(Effect.BRIDGE), "now").endswith("-> bridge reload")


def test_differences_name_routes_and_values() -> None:
    assert differences(OLD, part(bridge={"ping_s": 5.0})(OLD)) == ["bridge.ping_s: 15.0 -> 5.0"]
    assert differences(OLD, with_launch(OLD, argv=(*OLD.engine.launch.argv, "--x", "1"))) == ["engine.launch.argv: nothing -> --x 1"]
    assert differences(OLD, OLD) == []


def test_an_image_that_installs_at_boot_finds_its_payload_in_the_repository() -> None:
    files = image_files(data_root())
    specs = specset("nemotron-ada", {"profile": {"container.prebaked": False, "publish": {"repo": "me/pods", "reason": "To be followed."}}})
    bundle = compiled(specs, files).bundle
    assert bundle is not None
    release = release_of(bundle, files)
    payload = bundle.by_path()["payload.tar.bz2"]
    assert release.files[payload_path(payload.sha256)] == payload.content
    assert release.runtime is not None and release.runtime != payload.sha256
    publication = release.publication(1, "idle", 1.0, "")
    assert verify(unsigned(publication), (), allow_unsigned=True) == publication


def test_the_runtimes_payload_changes_with_the_runtime_alone() -> None:
    files = image_files(data_root())
    one, other = (compiled(specset("tiny-cpu", {"profile": changes}), files).bundle for changes in ({}, {"bridge.ping": 7.0}))
    assert one is not None and other is not None
    first, second = release_of(one, files), release_of(other, files)
    assert first.runtime == second.runtime and first.manifest != second.manifest
    assert release_of(one, {**files, "runtime/pod/__init__.py": b"# another\n"}).runtime != first.runtime
    with tarfile.open(fileobj=io.BytesIO(first.files[payload_path(first.runtime or "")]), mode="r:bz2") as archive:
        names = archive.getnames()
    assert "runtime/pod/__main__.py" in names and all(name.startswith("runtime/pod/") for name in names)
