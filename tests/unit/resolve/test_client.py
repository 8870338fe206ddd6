"""Clients: a bare name below a million tokens, the [1m] form from there on, and the window that is really served."""

from __future__ import annotations

import pytest

from compiler.plan.core import ClientPlan
from compiler.resolve import resolve_plan
from tests.support import REMOVE, specset


def client(window: int, **profile: object) -> ClientPlan:
    changes = {"settings.max_model_len": window, "names": REMOVE, "client": REMOVE} | {key.replace("__", "."): value for key, value in profile.items()}
    return resolve_plan(specset("nemotron-ada", {"profile": changes})).client


def env(of: ClientPlan) -> dict[str, str]:
    return {v.name: v.value for v in of.env}


@pytest.mark.parametrize("window", [65_536, 999_999])
def test_below_a_million(window: int) -> None:
    found = client(window)
    assert not found.model.endswith("[1m]")
    assert (found.context_window, found.compact_window) == (window, window)
    assert env(found)["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(window)
    assert env(found)["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == str(window)


@pytest.mark.parametrize("window", [1_000_000, 1_048_576])
def test_from_a_million_on(window: int) -> None:
    found = client(window)
    assert found.model.endswith("[1m]")
    assert found.compact_window == 1_000_000
    assert env(found)["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "1000000"
    assert "CLAUDE_CODE_MAX_CONTEXT_TOKENS" not in env(found)


def test_every_tier_has_the_model() -> None:
    found = env(client(65_536, client={"model": "mine", "small_model": "tiny"}))
    assert {found[f"ANTHROPIC_DEFAULT_{tier}_MODEL"] for tier in ("OPUS", "SONNET")} == {found["ANTHROPIC_MODEL"]} == {"mine"}
    assert found["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == found["ANTHROPIC_SMALL_FAST_MODEL"] == "tiny"


def test_first_name_of_the_profile_is_the_clients() -> None:
    assert client(65_536, names=[{"name": "first"}, {"name": "second"}]).model == "first"


def test_the_key_that_bills_elsewhere_is_unset() -> None:
    assert client(65_536).unset == ("ANTHROPIC_API_KEY",)


def test_client_names_are_served() -> None:
    for window in (65_536, 1_048_576):
        plan = resolve_plan(specset("nemotron-ada", {"profile": {"settings.max_model_len": window}}))
        assert plan.client.model in plan.model.served_names
