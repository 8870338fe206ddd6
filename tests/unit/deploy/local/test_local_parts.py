"""The parts of `podwright local`: folders, ports, what the pod's environment is, and what a log says."""

from __future__ import annotations

import dataclasses
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local import ports as ports_module
from compiler.deploy.local.own import pod_environment, running_descriptor
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Ports, Reservations, chosen_ports, free_from, is_free
from compiler.deploy.local.run import bootstrap_failure
from compiler.plan import Plan
from tests.support import subject


@pytest.fixture(scope="module")
def plan() -> Plan:
    return subject("tiny-cpu").plan


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(1)
        yield int(sock.getsockname()[1])


def placed(plan: Plan, endpoint: int, engine: int = 40_123) -> Plan:
    return dataclasses.replace(plan, network=dataclasses.replace(plan.network, endpoint_port=endpoint, engine_port=engine))


def test_everything_lies_below_the_folder_of_bundles_and_one_cache(tmp_path: Path) -> None:
    places = Places.of("tiny-cpu", tmp_path / "build", {"XDG_CACHE_HOME": str(tmp_path / "xdg")})
    assert places.bundle == tmp_path / "build/tiny-cpu" and places.cache == tmp_path / "xdg/podwright"
    assert {f.parent for f in (places.root, places.state, places.log, places.lock)} == {tmp_path / "build/local/tiny-cpu"}
    assert Places.of("x", tmp_path, {"PODWRIGHT_CACHE_DIR": str(tmp_path / "c")}).cache == tmp_path / "c"


def test_a_key_is_made_once_for_this_user_alone_and_a_given_one_wins(tmp_path: Path) -> None:
    places = Places.of("p", tmp_path, {})
    key = places.key("KEY", {})
    assert len(key) >= 32 and places.key("KEY", {"KEY": " "}) == key
    assert stat.S_IMODE((places.home / "key").stat().st_mode) == 0o600
    assert places.key("KEY", {"KEY": "mine"}) == "mine" and places.key("KEY", {}) == key
    assert Places.of("q", tmp_path, {}).key("KEY", {}) != key


@pytest.fixture
def reservations(tmp_path: Path) -> Iterator[Reservations]:
    found = Reservations(tmp_path / "cache")
    yield found
    found.release()


def test_a_taken_port_leads_to_the_next_one(plan: Plan, taken: int, reservations: Reservations) -> None:
    chosen = chosen_ports(placed(plan, taken), None, reservations)
    assert taken < chosen.endpoint <= taken + ports_module.TRIES and is_free(chosen.endpoint) and not is_free(taken)
    assert len({chosen.endpoint, chosen.engine, chosen.status}) == 3


def test_a_wanted_port_that_is_taken_is_refused_by_its_number(plan: Plan, taken: int, reservations: Reservations) -> None:
    with pytest.raises(LocalRunFailed, match=f"port {taken} is taken"):
        chosen_ports(plan, taken, reservations)


def test_no_port_is_given_twice(plan: Plan, reservations: Reservations) -> None:
    free = free_from(42_000, reservations)
    reservations.release()
    chosen = chosen_ports(placed(plan, free, free), None, reservations)
    assert chosen.endpoint == free and chosen.engine > free


def test_a_port_that_another_command_will_use_is_left_to_it(plan: Plan, reservations: Reservations, tmp_path: Path) -> None:
    """Its engine does not listen yet, and will."""
    first = chosen_ports(placed(plan, 42_300), None, reservations)
    other = Reservations(tmp_path / "cache")
    second = chosen_ports(placed(plan, 42_300), None, other)
    assert not {first.endpoint, first.engine, first.status} & {second.endpoint, second.engine, second.status}
    with pytest.raises(LocalRunFailed, match=f"port {first.endpoint} is taken"):
        chosen_ports(plan, first.endpoint, other)
    other.release()
    reservations.release()
    assert chosen_ports(placed(plan, 42_300), None, other) == first
    other.release()


def test_a_machine_without_free_ports_is_told(taken: int, reservations: Reservations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_module, "TRIES", 1)
    with pytest.raises(LocalRunFailed, match="no free port"):
        free_from(taken, reservations)


def test_the_pod_gets_what_it_needs_and_nothing_else_of_the_shell(plan: Plan, tmp_path: Path) -> None:
    places = Places.of("tiny-cpu", tmp_path, {})
    shell = {"PATH": "/bin", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONPATH": "/mine", "VL_CTX": "4096", "HF_HOME": "/data/hf", "PODWRIGHT_API_KEY": "old", "LISTEN_FDS": "3"}
    env = pod_environment(plan, places, Ports(8080, 18081, 8079), "the-key", shell)
    assert env["PATH"] == "/bin" and env["VL_CTX"] == "4096" and env["HF_HOME"] == "/data/hf" and env["PODWRIGHT_API_KEY"] == "the-key"
    assert env["HOME"] == str(places.root / "root") and env["VLLM_CACHE_ROOT"].startswith(str(places.home))
    assert env["PODWRIGHT_ROOT"] == str(places.root) and env["PODWRIGHT_LISTEN"] == "127.0.0.1" and env["VLLM_NO_USAGE_STATS"] == "1"
    assert not {"AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LISTEN_FDS", "VL_PORT", "VL_PROXY_PORT"} & env.keys()


def test_ports_that_moved_are_levers(plan: Plan, tmp_path: Path) -> None:
    env = pod_environment(plan, Places.of("t", tmp_path, {}), Ports(8082, 18083, 8085), "k", {})
    assert (env["VL_PROXY_PORT"], env["VL_PORT"], env["PODWRIGHT_STATUS_PORT"]) == ("8082", "18083", "8085")


def test_one_run_at_a_time_has_the_folder(tmp_path: Path) -> None:
    import os

    places = Places.of("t", tmp_path, {})
    first = running_descriptor(places)
    assert first is not None and running_descriptor(places) is None
    os.close(first)
    again = running_descriptor(places)
    assert again is not None
    os.close(again)


def test_why_a_bootstrap_gave_up_is_read_from_its_log() -> None:
    log = "[bootstrap] 01:02:03 free ports: 1\n[bootstrap] 01:02:03 FATAL port 8080 is taken by process 7 (nginx)\n[bootstrap] 01:02:03 FIX   stop that program\n[bootstrap] 01:02:03 the container stays open\n"
    assert bootstrap_failure(log) == ("port 8080 is taken by process 7 (nginx)", "stop that program")
    assert bootstrap_failure("[bootstrap] 01:02:03 image: FATAL\nnoise\n") is None
