"""Where a model fits: each hardware spec with an engine release that suits, the largest window that surely fits, and its price."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from compiler.diagnostics import Diagnostic, Place
from compiler.load import SpecStore, load_specset, logical
from compiler.load.overlay import OverlaidStore
from compiler.load.store import missing_reference
from compiler.plan.memory import Interval
from compiler.planning import planned_profile
from compiler.planning.solving import Candidate, Goal, Solution, planned_with, solved
from compiler.resolve.deploy import latest_price
from compiler.schema import EngineSpec, HardwareSpec, ModelSpec
from compiler.schema.specset import SpecSet

# Tried in turn where the defaults do not fit: fewer states on a small card, a smaller share where something else holds memory of it.
GENTLER = (
    "engine.max_num_seqs=16",
    "engine.gpu_memory_utilization=0.85",
    "engine.gpu_memory_utilization=0.80",
    "engine.gpu_memory_utilization=0.75",
)
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
PROFILE = "fit"  # The name of the profile that is made up for a pair that no shipped profile serves.


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """One hardware: what would run there, or why nothing does.

    `profile` is the profile whose settings were taken, None for podwright's defaults; `changes` are made to them, in the form of
    `--what-if`. `context` is the largest window in tokens that surely fits (0: none), `windows` how many of it the KV cache
    holds at once, `why` what stands in the way.
    """

    hardware: str
    gpus: str
    engine: str
    profile: str | None
    changes: tuple[str, ...]
    context: int
    windows: Interval
    usd_per_hour: float | None
    price_date: str | None
    why: str

    @property
    def fits(self) -> bool:
        """True when some window surely fits."""
        return self.context > 0

    def to_json(self) -> dict[str, Any]:
        """A flat mapping, the interval as `low`, `mid`, `high`."""
        return dataclasses.asdict(self) | {"fits": self.fits, "windows": self.windows.to_json(2)}


def fits_of_model(store: SpecStore, model: str) -> tuple[list[Fit], list[Diagnostic]]:
    """One row for each hardware, those that fit first, cheapest first. Findings when the model is unknown or incomplete."""
    name = _model_name(store, model)
    if name is None:
        place = Place(f"fit {model}")
        known = missing_reference(store, "model", model, place)
        missing = "Its layers by kind, KV heads, widths and the bytes of its weights: `podwright new model` starts a spec for them."
        if _REPO.fullmatch(model):
            made = f"`podwright new model {model}` writes one from the checkpoint's own files; then ask again with --specs podwright-specs."
            known, missing = dataclasses.replace(known, fix=made), ""
        return [], [
            dataclasses.replace(
                known,
                why="Without a spec of its architecture nothing can be counted, and nothing is guessed.",
                fix=f"{known.fix} {missing}".rstrip(),
            )
        ]
    spec, problems = store.spec("model", name)
    if not isinstance(spec, ModelSpec):
        return [], problems
    rows = [_fit(store, name, spec, hardware) for hardware in store.names("hardware")]
    return sorted((row for row in rows if row is not None), key=_order), []


def _order(fit: Fit) -> tuple[bool, bool, float, int, str]:
    return (not fit.fits, fit.usd_per_hour is None, fit.usd_per_hour or 0.0, -fit.context, fit.hardware)


def _model_name(store: SpecStore, asked: str) -> str | None:
    """The spec by its name, or the one whose checkpoint is that Hub repository."""
    names = store.names("model")
    if asked in names:
        return asked
    of_repo = (n for n in names if isinstance(spec := store.spec("model", n)[0], ModelSpec) and spec.checkpoint.repo == asked)
    return next(of_repo, None)


def _fit(store: SpecStore, name: str, model: ModelSpec, hardware: str) -> Fit | None:
    """The row of one hardware; None for a hardware spec that cannot be used, which `podwright lint` explains."""
    spec = store.spec("hardware", hardware)[0]
    if not isinstance(spec, HardwareSpec):
        return None
    served = [s for s in _profiles(store, name) if s.profile.hardware == hardware]
    if served:
        return _row(store, served[0], served[0].name, spec, hardware)
    first: Fit | None = None
    for engine in _engines(store, name, model, spec):
        data = _made_up(store, name, hardware, engine, spec)
        over = OverlaidStore(store, {logical("profile", PROFILE): data})
        specs, problems = load_specset(over, PROFILE)
        if specs is None:
            row = _refused(spec, hardware, engine, "; ".join(d.what for d in problems if d.is_error))
        else:
            row = _row(over, specs, None, spec, hardware)
        if row.fits:
            return row
        first = first or row
    return first or _refused(spec, hardware, "-", "no engine release in the specs suits it")


def _row(store: SpecStore, specs: SpecSet, profile: str | None, spec: HardwareSpec, hardware: str) -> Fit:
    base = planned_profile(store, specs.name)[0]
    engine = specs.profile.engine or ""
    if base is None:
        return _refused(spec, hardware, engine, "its specs cannot be used")
    solution = solved(store, base, base, Goal("context"))
    for change in () if profile or solution.found else GENTLER:
        start = planned_with(store, base, (change,))[0]
        gentler = solved(store, base, start or base, Goal("context"), (change,))
        if gentler.found:
            return _fitting(spec, specs, hardware, profile, (change,), gentler)
    return _fitting(spec, specs, hardware, profile, (), solution)


def _fitting(spec: HardwareSpec, specs: SpecSet, hardware: str, profile: str | None, changes: tuple[str, ...], solution: Solution) -> Fit:
    best, price = solution.found, latest_price(specs)
    why = "" if best else _reason(solution.nearest)
    windows = best.held if best else Interval(0.0, 0.0, 0.0)
    usd, date = (price.usd_per_hour, price.date) if price else (None, None)
    return Fit(hardware, _gpus(spec), specs.profile.engine or "", profile, changes, best.context if best else 0, windows, usd, date, why)


def _reason(nearest: Candidate | None) -> str:
    return nearest.missing if nearest else "nothing fits"


def _refused(spec: HardwareSpec, hardware: str, engine: str, why: str) -> Fit:
    newest = max(spec.prices, key=lambda p: p.date, default=None)
    return Fit(
        hardware,
        _gpus(spec),
        engine,
        None,
        (),
        0,
        Interval(0.0, 0.0, 0.0),
        newest.usd_per_hour if newest else None,
        newest.date if newest else None,
        why,
    )


def _gpus(spec: HardwareSpec) -> str:
    return f"{spec.count} x {spec.gpu.name.removeprefix('NVIDIA ')}"


def _profiles(store: SpecStore, model: str) -> list[SpecSet]:
    """Profiles of the model that can be used: those that stand alone first, since one that extends another tries something out."""
    found = [
        specs for name in store.names("profile") if (specs := load_specset(store, name)[0]) is not None and specs.profile.model == model
    ]
    return sorted(found, key=lambda s: (bool(s.origins), s.name))


def _engines(store: SpecStore, name: str, model: ModelSpec, hardware: HardwareSpec) -> list[str]:
    """Engine specs that suit, the best first: pinned by a profile of the model, then releases from new to old, never a preview unasked."""
    is_cpu = hardware.gpu.architecture == "cpu"
    usable = {e: s for e in store.names("engine") if isinstance(s := store.spec("engine", e)[0], EngineSpec) and (s.cuda is None) == is_cpu}
    pinned = [s.profile.engine for s in _profiles(store, name) if s.profile.engine in usable]
    least = _release(model.architecture.min_engine or "0")
    others = [e for e, s in usable.items() if not s.preview and _release(s.release) >= least]
    others.sort(key=lambda e: _release(usable[e].release), reverse=True)
    return list(dict.fromkeys([*(p for p in pinned if p), *others]))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall("[0-9]+", version)[:3])


def _made_up(store: SpecStore, model: str, hardware: str, engine: str, spec: HardwareSpec) -> dict[str, Any]:
    """A profile of podwright's defaults for the pair."""
    release = store.spec("engine", engine)[0]
    containers = [s.profile.container for s in _profiles(store, model) if s.profile.engine == engine]
    container: dict[str, Any] = {"recipe": release.images[0].recipe if release.images else "vllm-venv"}
    if containers:  # What a profile bakes for this model, it needs on any hardware.
        container = {"recipe": containers[0].recipe, "extras": containers[0].extras}
    target = "runpod" if spec.host.kind == "rented" and spec.gpu.architecture != "cpu" else "docker"
    return {
        "kind": "profile",
        "summary": f"{model} on {hardware}, by default.",
        "model": model,
        "hardware": hardware,
        "engine": engine,
        "target": target,
        "container": container,
    }
