"""How a measurement's set-up differs from a profile's: card, number of GPUs, and the value of the option that it is cited for."""

from __future__ import annotations

import re
from typing import Any

from compiler.lint.rule import Subject
from compiler.schema import Measurement

# Words of a card's short name that nvidia-smi's name may leave out.
_FORM = frozenset({"sxm", "pcie"})


def differences(subject: Subject, record: Measurement, option: str | None, value: Any) -> list[str]:
    """What is another than in the profile, in words; only what the record states is compared. Empty for a record of this set-up.

    A record that rejected another value speaks for this one, so its value is not held against it.
    """
    gpu, count = subject.specs.hardware.gpu, subject.specs.hardware.count
    found = []
    if record.hardware is not None and not is_card(record.hardware, gpu.name):
        found.append(f"measured on {record.gpus or 1} x {record.hardware}, not {gpu.name}")
    elif record.hardware is not None and record.gpus is not None and record.gpus != count:
        found.append(f"measured on {record.gpus} such card{'s' if record.gpus != 1 else ''}, not {count}")
    said = stated(record, option)
    if option is not None and said is not None and record.verdict != "rejected" and not same(said, value):
        found.append(f"measured with `{option}: {said}`, not {value}")
    return found


def is_card(short: str, name: str) -> bool:
    """True when a record's short name of a card, for instance rtx-6000-ada, is that of nvidia-smi's name."""
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    parts = [part for part in short.lower().split("-") if part not in _FORM]
    return all(any(word == part or word == f"{part}gb" for word in words) for part in parts) and not (words & _FORM) - set(
        short.lower().split("-")
    ) - {"pcie"}


def stated(record: Measurement, option: str | None) -> Any:
    """The record's value of an engine option; records spell options with dashes, underscores or capitals."""
    plain = {key.lower().strip("-").replace("-", "_"): said for key, said in record.settings.items()}
    return plain.get(option) if option is not None else None


def same(said: Any, value: Any) -> bool:
    """True for one value in two spellings, and for one of several that a record lists."""
    if (said, value) in (("auto", "bf16"), ("bf16", "auto")):
        return True  # What `auto` is for a checkpoint that imposes no cache type.
    return str(said).lower() == str(value).lower() or (isinstance(said, tuple) and any(same(one, value) for one in said))
