"""What to rent: places, price, CUDA, names."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.plan.core import DeployPlan, EnvVar, HardwarePlan, ImagePlan
from compiler.resolve.ledger import Ledger
from compiler.resolve.start import resolve_entrypoint, resolve_start_command
from compiler.schema.hardware import Price
from compiler.schema.specset import SpecSet

# A v2 request takes long names, but other tools keep to 60 characters, and a host name must stay below 64.
NAME_LIMIT = 60


def resolve_deploy(specs: SpecSet, ledger: Ledger, image: ImagePlan) -> DeployPlan:
    """Where the pod may run and what it may cost."""
    chosen = specs.profile.deploy
    ledger.section("deploy", chosen, "deploy")
    ledger.section("deploy.cuda", chosen.cuda, "deploy", "cuda")
    price = latest_price(specs)
    if price is not None:
        where = str(specs.place("hardware", "prices"))
        ledger.record("deploy.price_usd_h", price.usd_per_hour, "hardware", where, f"Read on {price.date}: {(price.source or 'no source given').rstrip('.')}.")
    needs_gpu = specs.engine.cuda is not None and specs.profile.target == "runpod"
    return DeployPlan(
        provider="runpod" if specs.profile.target == "runpod" else "local", clouds=chosen.clouds, data_centers=chosen.data_centers,
        price_usd_h=price.usd_per_hour if price else None, price_date=price.date if price else None,
        price_ceiling_usd_h=chosen.price_ceiling.usd_per_hour if chosen.price_ceiling else None, max_hours=chosen.max_hours,
        idle_stop_minutes=chosen.idle_stop_minutes, cuda_versions=chosen.cuda.versions if needs_gpu else (),
        min_cuda=chosen.cuda.minimum if needs_gpu else None, template_name=f"podwright-{specs.name}"[:NAME_LIMIT], pod_name=f"podwright-{specs.name}"[:NAME_LIMIT],
        registry_auth=chosen.registry_auth, start_command=resolve_start_command(image), entrypoint=resolve_entrypoint(image),
    )  # fmt: skip


def resolve_hardware(specs: SpecSet) -> HardwarePlan:
    """The GPUs as renderers and rules see them."""
    hw = specs.hardware
    env = {**{n: c.value for n, c in hw.env.items()}, **{n: c.value for n, c in specs.profile.env.items()}}
    conf = tuple(EnvVar(n, env[n], hw.env[n].reason or "" if n in hw.env else "") for n in sorted(env) if n.startswith("NCCL_")) if hw.nccl_conf else ()
    return HardwarePlan(
        slug=specs.profile.hardware or "", name=hw.gpu.name, runpod_ids=hw.gpu.runpod_ids, architecture=hw.gpu.architecture, compute_capability=hw.gpu.compute_capability,
        count=hw.count, vram_mib=hw.gpu.vram_mib, bandwidth_gb_s=hw.gpu.bandwidth_gb_s, peer_to_peer=hw.interconnect.peer_to_peer, min_driver=hw.host.min_driver,
        host=hw.host.kind, nccl_conf=conf,
    )  # fmt: skip


def latest_price(specs: SpecSet) -> Price | None:
    """The newest dated price of the hardware in the first cloud that has one."""
    for cloud in specs.profile.deploy.clouds:
        of_cloud = [p for p in specs.hardware.prices if p.cloud == cloud]
        if of_cloud:
            return _newest(of_cloud)
    return _newest(specs.hardware.prices) if specs.hardware.prices else None


def _newest(prices: Sequence[Price]) -> Price:
    """The price with the latest date; of one day's prices the last one listed holds."""
    return max(enumerate(prices), key=lambda row: (row[1].date, row[0]))[1]
