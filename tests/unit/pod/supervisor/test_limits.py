"""A pod ends its own rent: by age, by idleness, and never while it works."""

from __future__ import annotations

import dataclasses

import pytest
from pod.contract import ManifestError, SpendLimits
from pod.supervisor.effects import EndSpend
from pod.supervisor.events import EngineExited, Requests, SpendEnded, Tick
from pod.supervisor.limits import AGAIN_S

from tests.unit.pod.manifests import example_manifest
from tests.unit.pod.supervisor.history import History


def limited(max_s: float | None = None, idle_s: float | None = None) -> History:
    manifest = example_manifest()
    supervisor = dataclasses.replace(manifest.supervisor, spend=SpendLimits(max_s, idle_s))
    return History(dataclasses.replace(manifest, supervisor=supervisor)).serves()


def ages(history: History, seconds: float, age_s: float) -> list[EndSpend]:
    history.now += seconds
    return history.happens(Tick(age_s)).did(EndSpend)


def test_a_pod_that_is_old_enough_is_stopped_once() -> None:
    history = limited(max_s=3600.0)
    assert not ages(history, 10.0, 3599.0)
    [end] = ages(history, 1.0, 3600.0)
    assert "deploy.max_hours allows 1" in end.reason and not ages(history, 1.0, 3601.0)


def test_age_counts_also_where_nothing_serves() -> None:
    history = limited(max_s=3600.0).happens(EngineExited(100, 1))
    assert not history.state.serving and ages(history, 1.0, 3600.0)


def test_an_idle_pod_is_stopped_and_a_busy_one_is_not() -> None:
    history = limited(idle_s=600.0).happens(Requests(0, 0))
    assert not ages(history, 599.0, 599.0)
    history.happens(Requests(1, 0)).happens(Requests(0, 0))
    assert not ages(history, 599.0, 1200.0)
    [end] = ages(history, 1.0, 1201.0)
    assert "no request for 10 minutes" in end.reason


def test_an_engine_that_does_not_tell_its_load_is_not_idle() -> None:
    history = limited(idle_s=600.0).happens(Requests(0, 0)).happens(Requests(0, 0, is_known=False))
    assert not ages(history, 601.0, 601.0)
    history.happens(Requests(0, 0))
    assert not ages(history, 599.0, 1200.0) and ages(history, 1.0, 1201.0)


def test_what_does_not_serve_is_not_idle() -> None:
    history = limited(idle_s=600.0).happens(Requests(0, 0)).happens(EngineExited(100, 1))
    assert not ages(history, 601.0, 601.0)


def test_a_provider_that_could_not_be_told_is_asked_again_later() -> None:
    history = limited(max_s=60.0)
    assert ages(history, 0.0, 60.0)
    history.happens(SpendEnded(False, "the provider answered 500"))
    assert not ages(history, AGAIN_S - 1.0, AGAIN_S) and ages(history, 2.0, AGAIN_S)
    history.happens(SpendEnded(True, "answered 200"))
    assert not ages(history, AGAIN_S * 2, AGAIN_S * 3)


def test_without_limits_nothing_ends() -> None:
    assert not ages(limited().happens(Requests(0, 0)), 1e9, 1e9)


@pytest.mark.parametrize(("limits", "route"), [(SpendLimits(0.0, None), "max_s"), (SpendLimits(None, -1.0), "idle_s")])
def test_a_limit_that_ends_everything_at_once_is_refused(limits: SpendLimits, route: str) -> None:
    manifest = example_manifest()
    document = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, spend=limits)).canonical_bytes()
    with pytest.raises(ManifestError, match=f"supervisor.spend.{route}"):
        type(manifest).from_bytes(document)
