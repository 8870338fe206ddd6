"""The fits behind `speed` in hardware specs, made again from the records that they cite; and what the law says of records that it does not.

`PYTHONPATH=. python tests/unit/resolve/speed_records.py` prints all of it: what docs/planner.md tells.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from compiler.diagnostics import Place
from compiler.load import SpecStore
from compiler.resolve.speed import KV_ALONE, KV_TOGETHER, _Estimate, _Reads
from compiler.schema import HardwareSpec, Measurement, ModelSpec
from compiler.schema.hardware import ModelSpeed
from tests.support import SPECS

STORE = SpecStore([SPECS])


@dataclasses.dataclass(frozen=True)
class Residual:
    """A record, what it says and what the law says, in tokens a second."""

    record: str
    measured: float
    expected: float

    @property
    def error(self) -> float:
        """Relative distance of the law from the record."""
        return self.expected / self.measured - 1


def record(reference: str) -> Measurement:
    """The measurement behind topic/id."""
    found, problems = STORE.measurement(reference, Place(reference))
    assert found is not None, problems
    return found


def value(reference: str) -> float:
    """Its number."""
    found = record(reference).value
    assert isinstance(found, (int, float)), reference
    return float(found)


def number(reference: str, setting: str, otherwise: float) -> float:
    """A number among the settings of a record."""
    found = record(reference).settings.get(setting, otherwise)
    assert isinstance(found, (int, float)), reference
    return float(found)


@functools.cache
def hardware(name: str) -> HardwareSpec:
    """A shipped hardware spec."""
    found, problems = STORE.spec("hardware", name)
    assert isinstance(found, HardwareSpec), problems
    return found


def reads(model: str, cache: float = 0.0) -> _Reads:
    """What a token of a shipped model reads; `cache` are bytes for one token of context on a GPU."""
    spec, problems = STORE.spec("model", model)
    assert isinstance(spec, ModelSpec), problems
    sizes = {part.part: float(part.bytes_read_per_token or 0) for part in spec.quantization.parts}
    experts = sizes.pop("routed-experts", 0.0)
    return _Reads(sum(sizes.values()), experts, spec.architecture.experts, spec.architecture.experts_per_token, cache)


def estimate(name: str, rows: Sequence[ModelSpeed], model: str, cache: float = 0.0) -> _Estimate:
    """The law of a hardware for a model."""
    spec = hardware(name)
    assert spec.gpu.bandwidth_gb_s is not None
    return _Estimate(rows, any(row.model == model for row in rows), reads(model, cache), spec.gpu.bandwidth_gb_s * 1e9, spec.count)


def seconds_of_weights(name: str, model: str, sessions: int) -> float:
    """Time in which the weights of a step could be read at the whole bandwidth."""
    found = estimate(name, (), model)
    return found.reads.weights(sessions) / (found.bandwidth * found.gpus)


def line(points: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Slope and start of the line through (x, y) with the least sum of squared relative errors."""
    rows = [(x / y, 1 / y) for x, y in points]
    aa, ab, bb = (sum(p * q for p, q in pairs) for pairs in ([(a, a) for a, _ in rows], rows, [(b, b) for _, b in rows]))
    a1, b1 = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = aa * bb - ab * ab
    return (a1 * bb - b1 * ab) / determinant, (aa * b1 - ab * a1) / determinant


def solo_efficiency(name: str, row: ModelSpeed) -> float:
    """From the mean time of a token over the cited records."""
    times = [1 / value(r) for r in row.solo.evidence]
    return seconds_of_weights(name, row.model, 1) / (sum(times) / len(times))


def batch_law(name: str, row: ModelSpeed) -> tuple[float, float]:
    """Efficiency, and milliseconds of a step, over the cited records."""
    assert row.batch is not None
    slope, start = line((seconds_of_weights(name, row.model, sessions(r)), sessions(r) / value(r)) for r in row.batch.evidence)
    return 1 / slope, start * 1e3


def prefill_law(row: ModelSpeed) -> tuple[float, float | None]:
    """Microseconds of a token, and more of them for each 1,000 tokens where the records tell their lengths."""
    assert row.prefill is not None
    lengths = [number(r, "input_tokens", 0) for r in row.prefill.evidence]
    times = [1e6 / value(r) for r in row.prefill.evidence]
    if not all(lengths):
        return sum(times) / len(times), None
    slope, start = line(zip((length / 1e3 for length in lengths), times, strict=True))
    return start, slope


def sessions(reference: str) -> int:
    """Sessions of a record; one where it does not say."""
    return int(number(reference, "sessions", 1))


def solo_residuals(name: str, row: ModelSpeed) -> list[Residual]:
    """The cited records of one session against the law."""
    return [Residual(r, value(r), estimate(name, [row], row.model).solo(0).mid) for r in row.solo.evidence]


def batch_residuals(name: str, row: ModelSpeed, references: Sequence[str] | None = None) -> list[Residual]:
    """Records of sessions together against the law: those cited, or `references`."""
    assert row.batch is not None
    found = []
    for r in references or row.batch.evidence:
        rate = estimate(name, [row], row.model).aggregate(sessions(r), 0)
        assert rate is not None, r
        found.append(Residual(r, value(r), rate.mid))
    return found


def prefill_residuals(name: str, row: ModelSpeed) -> list[Residual]:
    """The cited prefills against the law."""
    assert row.prefill is not None
    found = []
    for r in row.prefill.evidence:
        rate = estimate(name, [row], row.model).prefill(int(number(r, "input_tokens", 0)))
        assert rate is not None
        found.append(Residual(r, value(r), rate.mid))
    return found


def rows() -> list[tuple[str, ModelSpeed]]:
    """Every row of every shipped hardware spec."""
    return [(name, row) for name in STORE.names("hardware") for row in hardware(name).speed]


def own(name: str, model: str) -> ModelSpeed:
    """The row of a model on a hardware."""
    return next(row for row in hardware(name).speed if row.model == model)


ORNITH_CACHE = {"fp8": 10_240.0, "bf16": 20_480.0}  # Bytes of a token over both KV heads and ten layers.


def kept_out() -> list[tuple[str, Residual, bool]]:
    """Records that calibrate nothing, with what the law says of them, and whether they lie inside its interval."""
    found: list[tuple[str, Residual, bool]] = []

    def add(name: str, reference: str, law: _Estimate, context: int = 0, together: int | None = None, column: str | None = None) -> None:
        n = together or sessions(reference)
        rate = law.solo(context) if n == 1 else law.aggregate(n, context)
        measured = value(reference) if column is None else record(reference).columns[column]
        assert rate is not None and isinstance(measured, (int, float)), reference
        per_stream = record(reference).metric == "decode_tok_s_per_stream"
        scale = n if per_stream else 1
        found.append((name, Residual(reference, float(measured), rate.mid / scale), rate.low <= float(measured) * scale <= rate.high))

    ada, pro, a40 = "rtx-6000-ada", "rtx-pro-6000", "2xa40"
    nemotron = estimate(ada, [own(ada, "nemotron-nvfp4")], "nemotron-nvfp4")
    add(ada, "nemotron-ada/nemotron-ada-ssu-simple-solo", nemotron)
    add(ada, "nemotron-ada/nemotron-ada-v79-fp16-solo", nemotron)
    blackwell = estimate(pro, [own(pro, "nemotron-nvfp4")], "nemotron-nvfp4")
    for name in (
        "nemotron-machines/nemotron-pro6000-1m",
        "nemotron-blackwell-rejected/nemotron-pro6000-O3",
        "nemotron-blackwell-rejected/nemotron-pro6000-no-prefix-cache",
    ):
        add(pro, f"{name}-solo", blackwell)
        add(pro, f"{name}-agg8", blackwell)
    agents = estimate(a40, [own(a40, "ornith-awq")], "ornith-awq", ORNITH_CACHE["bf16"] / 2)
    add(a40, "machine-choice/choice-a40x2-solo-85k", agents, 85_000)
    other = estimate(ada, hardware(ada).speed, "ornith-awq", ORNITH_CACHE["bf16"])
    for length in (3, 32, 114, 282):
        add(ada, f"ada-ornith-nvfp4/ornith-awq-ada-solo-{length}k", other, length * 1000)
    add(ada, "machine-choice/choice-ada-6agents", other, 80_000, 6)
    found.append(_prefill(a40, "agents/a40-ornith-cold-6x80k-prefill", agents, 80_000))
    found.append(_prefill(pro, "nemotron-blackwell-rejected/nemotron-pro6000-O3-prefill", blackwell, 0))
    return found


def _prefill(name: str, reference: str, law: _Estimate, length: int) -> tuple[str, Residual, bool]:
    rate, measured = law.prefill(length), value(reference)
    assert rate is not None
    return name, Residual(reference, measured, rate.mid), rate.low <= measured <= rate.high


def slope_of_law() -> list[Residual]:
    """The long contexts on which the record behind KV_ALONE was itself fitted: how well one share of the bandwidth describes them."""
    law = estimate("rtx-6000-ada", [own("rtx-6000-ada", "ornith-nvfp4")], "ornith-nvfp4", ORNITH_CACHE["fp8"])
    names = ((32_000, "32k"), (114_000, "114k"), (282_000, "282k"), (1_011_609, "1m"))
    references = [(context, f"ada-ornith-nvfp4/ornith-nvfp4-ada-solo-{name}") for context, name in names]
    return [Residual(reference, value(reference), law.solo(context).mid) for context, reference in references]


def shares_of_cache() -> tuple[float, float]:
    """KV_ALONE from the slope that its record states, and KV_TOGETHER from what six agents leave beside the weights of their step."""
    ada, a40 = estimate("rtx-6000-ada", (), "ornith-nvfp4"), estimate("2xa40", [own("2xa40", "ornith-awq")], "ornith-awq")
    slope = record("ada-ornith-nvfp4/ornith-nvfp4-decode-law").columns["us_per_context_token"]
    assert isinstance(slope, float)
    alone = ORNITH_CACHE["fp8"] / ada.bandwidth / (slope / 1e6)
    step, short = 1 / value("agents/agentbench-v59"), a40.aggregate(6, 0)
    assert short is not None
    return alone, 6 * 80_000 * ORNITH_CACHE["bf16"] / 2 / a40.bandwidth / (step - 6 / short.mid)


def main() -> None:
    """Print fits, residuals and records that were kept out."""
    for name, row in rows():
        print(f"{name} {row.model}: solo efficiency {solo_efficiency(name, row):.4f}")
        shown = solo_residuals(name, row)
        if row.batch is not None:
            print(f"  batch efficiency, step ms: {batch_law(name, row)}")
            shown += batch_residuals(name, row)
        if row.prefill is not None:
            print(f"  prefill us, us each 1k: {prefill_law(row)}")
            shown += prefill_residuals(name, row)
        print("\n".join(f"    {r.record}: {r.measured:g} measured, {r.expected:g} expected, {r.error:+.1%}" for r in shown))
    print("kept out")
    print(
        "\n".join(
            f"    {name} {r.record}: {r.measured:g} measured, {r.expected:g} expected, {r.error:+.1%}{'' if inside else ', OUTSIDE'}"
            for name, r, inside in kept_out()
        )
    )
    errors = sorted(abs(r.error) for _, r, _ in kept_out())
    print(f"    {len(errors)} records, median {errors[len(errors) // 2]:.1%}, worst {errors[-1]:.1%}")
    print("\n".join(f"slope {r.record}: {r.error:+.1%}" for r in slope_of_law()))
    print(f"shares of the cache {shares_of_cache()}; in use {KV_ALONE}, {KV_TOGETHER}")


if __name__ == "__main__":
    main()
