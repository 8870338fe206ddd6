"""What to rent: the newest price of the first cloud that has one, the CUDA pin, names within limits."""

from __future__ import annotations

import pytest

from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from tests.support import REMOVE, Changes, specset


def plan(changes: Changes | None = None, base: str = "nemotron-ada") -> Plan:
    return resolve_plan(specset(base, changes))


PRICES = [
    {"usd_per_hour": 1.0, "date": "2026-08-01"}, {"usd_per_hour": 3.0, "date": "2026-08-23", "source": "Page."}, {"usd_per_hour": 2.0, "date": "2026-08"},
    {"usd_per_hour": 0.5, "date": "2026-09-01", "cloud": "COMMUNITY"},
]  # fmt: skip


@pytest.mark.parametrize(("clouds", "price"), [(["SECURE"], (3.0, "2026-08-23")), (["COMMUNITY", "SECURE"], (0.5, "2026-09-01")), (["SECURE", "COMMUNITY"], (3.0, "2026-08-23"))])
def test_price_is_the_newest_of_the_first_cloud(clouds: list[str], price: tuple[float, str]) -> None:
    deploy = plan({"hardware": {"prices": PRICES}, "profile": {"deploy.clouds": clouds}}).deploy
    assert (deploy.price_usd_h, deploy.price_date) == price


def test_of_one_days_prices_the_last_holds() -> None:
    assert plan({"hardware": {"prices": [{"usd_per_hour": p, "date": "2026-08-01"} for p in (2.0, 1.0)]}}).deploy.price_usd_h == 1.0


def test_no_price_is_no_price() -> None:
    deploy = plan({"hardware": {"prices": []}}).deploy
    assert (deploy.price_usd_h, deploy.price_date) == (None, None)


def test_cuda_pin_only_where_there_is_a_gpu_to_rent() -> None:
    assert plan({"profile": {"deploy.cuda": {"minimum": "12.9"}}}).deploy.min_cuda == "12.9"
    assert plan(base="tiny-cpu").deploy.cuda_versions == ()
    local = plan({"profile": {"target": "docker"}}).deploy
    assert (local.provider, local.cuda_versions) == ("local", ())


def test_nccl_settings_go_to_a_file_where_workers_lose_them() -> None:
    on: Changes = {"hardware": {"nccl_conf": True, "env.NCCL_B": {"value": "2", "reason": "B."}, "env.NCCL_A": "1", "env.OTHER": "x"}, "profile": {"env.NCCL_B": "3"}}
    conf = {v.name: v.value for v in plan(on).hardware.nccl_conf}
    assert {name: conf[name] for name in ("NCCL_A", "NCCL_B")} == {"NCCL_A": "1", "NCCL_B": "3"}
    assert "OTHER" not in conf
    assert plan({"hardware": {"nccl_conf": False}}).hardware.nccl_conf == ()


def test_names_stay_within_limits() -> None:
    deploy = plan().deploy
    assert deploy.pod_name == deploy.template_name == "podwright-nemotron-ada"


def test_price_ceiling() -> None:
    assert plan({"profile": {"deploy.price_ceiling": {"usd_per_hour": 2.5}}}).deploy.price_ceiling_usd_h == 2.5
    assert plan({"profile": {"deploy.price_ceiling": REMOVE}}).deploy.price_ceiling_usd_h is None
