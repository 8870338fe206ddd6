"""An offer as text for a person and as JSON for a script."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.console import table
from compiler.deploy.candidates import candidates, cuda_pin
from compiler.deploy.offer import Difference, Offer
from compiler.deploy.provider import Stock
from compiler.plan import Plan
from compiler.render.report import device_name, memory_lines

_DEEDS = {
    "create": "create one; nothing of this profile exists",
    "adopt": "take over {pod}: it is what the profile asks for, nothing is created",
    "start": "start {pod}, which is stopped",
    "replace": "terminate {pod} and create another one",
}
# A changed start command holds a whole script; its beginning tells the two apart or nothing does.
_SHOWN = 120


def offer_text(offer: Offer, *, end_by_h: float | None, ascii_only: bool) -> str:
    """What will be done, on what, for how much. Ends with a line break."""
    plan = offer.wanted.plan
    pod = f"pod {offer.pod.id} ({offer.pod.status})" if offer.pod else ""
    rows = [("pod", _DEEDS[offer.deed].format(pod=pod)), *(("", _shown(d)) for d in offer.pod_differences)]
    if offer.template_name is not None:
        done = "as it is" if not offer.template_differences else "change" if offer.template else "create"
        rows.append(("template", f"{done} {offer.template_name}"))
        rows += [("", _shown(d)) for d in offer.template_differences if offer.template]
    rows += [("image", plan.image.reference), ("secrets", _secrets_text(offer)), ("price", _price_text(offer))]
    if end_by_h is not None:
        rows.append(("limit", f"after {end_by_h:g} h `podwright sweep` ends it"))
    lines = _head(plan, [*rows, *_limits(plan)])
    if offer.options and plan.deploy.provider != "local":
        lines += ["", "  candidates, in order", *_candidate_lines(offer)]
    lines += ["", *memory_lines(plan.memory, device_name(plan), ascii_only=ascii_only)]
    return "\n".join(lines) + "\n"


def plan_text(plan: Plan, *, ascii_only: bool) -> str:
    """What the profile alone says of a deploy, where no provider could be asked. Ends with a line break."""
    d = plan.deploy
    price = f"${d.price_usd_h:.2f} an hour, read {d.price_date}" if d.price_usd_h is not None else "not known"
    rows = [
        ("image", plan.image.reference),
        ("secrets", ", ".join(f"{s.provider_name}{'' if s.required else ' (optional)'}" for s in plan.secrets)),
        ("price", price + _bound(plan)),
        *_limits(plan),
    ]
    asked = [f"  {n}. {c.count} x {c.gpu_id}, {c.cloud}, {c.data_center or 'any data center'}, CUDA {c.cuda}" for n, c in enumerate(candidates(plan), 1)]
    memory = memory_lines(plan.memory, device_name(plan), ascii_only=ascii_only)
    return "\n".join([*_head(plan, rows), "", "  candidates, in order", *asked, "", *memory]) + "\n"


def _head(plan: Plan, rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{plan.profile}: {plan.summary}", *(f"  {name:<10}{value}".rstrip() for name, value in rows if value)]


def _limits(plan: Plan) -> list[tuple[str, str]]:
    hours, minutes = plan.deploy.max_hours, plan.deploy.idle_stop_minutes
    rows = [("limit", f"after {hours:g} h it stops itself")] if hours is not None else []
    return [*rows, ("limit", f"after {minutes:g} minutes without a request it stops itself")] if minutes is not None else rows


def offer_json(offer: Offer) -> dict[str, object]:
    """The same as a mapping."""
    price = offer.price
    return {
        "profile": offer.wanted.plan.profile,
        "deed": offer.deed,
        "pod": offer.pod.id if offer.pod else None,
        "pod_differences": list(map(str, offer.pod_differences)),
        "template": offer.template_name,
        "template_differences": list(map(str, offer.template_differences)),
        "image": offer.wanted.plan.image.reference,
        "cuda": str(cuda_pin(offer.wanted.plan)),
        "candidates": [o.to_json() for o in offer.options],
        "secrets": dict(offer.secrets),
        "usd_per_hour": {"lowest": price[0], "highest": price[1]} if price else None,
        "ceiling_usd_per_hour": offer.wanted.plan.deploy.price_ceiling_usd_h,
        "memory": offer.wanted.plan.memory.verdict,
        "problems": [p.to_json() for p in offer.problems],
    }


def _candidate_lines(offer: Offer) -> list[str]:
    rows = []
    for number, option in enumerate(offer.options, 1):
        c = option.candidate
        price = "price not known" if option.price is None else f"${option.price:.2f}/h"
        stock = "stock not known" if option.stock is Stock.UNKNOWN else f"stock {option.stock}"
        free = "" if option.cuda_free is None else " free" if option.cuda_free else " full"
        rows.append(
            (
                f"{number}.",
                f"{c.count} x {c.gpu_id}",
                c.cloud,
                c.data_center or "any",
                f"CUDA {c.cuda}{free}",
                stock,
                price,
                f"not asked for: {option.problem}" if option.problem else "",
            )
        )
    return ["  " + line for line in table(rows, [""] * 8).split("\n")[1:]]


def _shown(difference: Difference) -> str:
    words = str(difference)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _secrets_text(offer: Offer) -> str:
    required = {s.provider_name: s.required for s in offer.wanted.plan.secrets}
    said = {True: "there", False: "missing", None: "cannot be looked up"}
    return ", ".join(f"{name}: {said[there]}{'' if required[name] else ' (optional)'}" for name, there in offer.secrets.items())


def _bound(plan: Plan) -> str:
    ceiling = plan.deploy.price_ceiling_usd_h
    return f"; ceiling ${ceiling:.2f} an hour" if ceiling is not None else "; no ceiling in the profile"


def _price_text(offer: Offer) -> str:
    if offer.wanted.plan.deploy.provider == "local":
        return "own machine"
    bound = _bound(offer.wanted.plan)
    if offer.price is None:
        return f"not known{bound}"
    low, high = offer.price
    hours = f"${low:.2f}" if abs(high - low) < 0.005 else f"${low:.2f} to ${high:.2f}"
    return f"{hours} an hour, up to ${high * 24:.2f} a day{bound}"
