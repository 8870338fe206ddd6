"""Headers of safetensors files and their index: which tensors there are, how they are stored, and what does not fit together."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from compiler.checkpoint.json_file import JsonFile, read_json
from compiler.diagnostics import Diagnostic, Place, Severity

LENGTH_BYTES = 8
LARGEST_HEADER = 100_000_000  # The format's own bound; more is another file, or a broken one.
_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "C64": 64,
}
_REPLACED = "Download the file again; where the publisher's own is like this, no engine loads it."
_SPARE = re.compile(r"(^|/)(consolidated|original)[./]")


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor; `bytes` as stored."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Stored elements: a packed word of eight weights counts as one."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """One safetensors file with what its header lists; None for a header that could not be read."""

    name: str
    size: int
    header: bytes | None


def header_length(name: str, start: bytes, size: int) -> tuple[int, list[Diagnostic]]:
    """Bytes of the header that follows the first eight of a file of `size` bytes."""
    length = int.from_bytes(start[:LENGTH_BYTES], "little") if len(start) >= LENGTH_BYTES else 0
    if not 2 <= length <= min(LARGEST_HEADER, max(0, size - LENGTH_BYTES)):
        hint = " It holds a pointer of Git LFS and no weights." if start.startswith(b"version ") else ""
        return 0, [_broken(name, f"is no safetensors file: its first bytes ask for a header of {length:,} bytes in {size:,}.{hint}")]
    return length, []


def tensors_of(shard: Shard) -> tuple[list[Tensor], list[Diagnostic]]:
    """The tensors of one file, or what is wrong with its header. Every byte must belong to one tensor."""
    file, problems = read_json(shard.name, shard.header or b"")
    if file is None:
        return [], [dataclasses.replace(d, code="CKP005") for d in problems]
    found: list[tuple[int, int, Tensor]] = []
    for name, entry in file.data.items():
        if name != "__metadata__":
            tensor = _tensor(name, entry)
            if isinstance(tensor, str):
                return [], [_broken(shard.name, f"describes `{name}` in a way that cannot be: {tensor}")]
            found.append(tensor)
    found.sort(key=lambda item: item[:2])
    ends = [0, *(end for _, end, _ in found)]
    torn = next((t for (begin, _, t), end in zip(found, ends, strict=False) if begin != end), None)
    if torn is not None:
        return [], [_broken(shard.name, f"leaves a gap or an overlap before `{torn.name}`")]
    stored = shard.size - LENGTH_BYTES - len(shard.header or b"")
    if ends[-1] != stored:
        return [], [_broken(shard.name, f"promises {ends[-1]:,} bytes of tensors and holds {stored:,}")]
    return [tensor for _, _, tensor in found], []


def _tensor(name: str, entry: Any) -> tuple[int, int, Tensor] | str:
    """Where a tensor begins and ends, and the tensor; or what is wrong, in words."""
    if not isinstance(entry, dict):
        return "no object"
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        return f"a dtype {json.dumps(dtype, default=str)[:40]}"
    if (
        not isinstance(shape, list)
        or not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(_is_count(v) for v in (*shape, *offsets))
    ):
        return "shape or offsets that are no whole numbers from 0 on"
    begin, end = offsets
    wanted = -(-math.prod(shape) * _BITS[dtype] // 8)
    if end - begin != wanted:
        return f"{end - begin:,} bytes for {wanted:,}"
    return begin, end, Tensor(name, dtype, tuple(shape), wanted)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60


def chosen_files(names: Iterable[str], index: JsonFile | None) -> list[str]:
    """The safetensors files that the engine reads: those of the index, else all but a publisher's second copy."""
    if index is not None and isinstance(index.data.get("weight_map"), dict):
        return sorted({str(file) for file in index.data["weight_map"].values()})
    files = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    kept = [name for name in files if not _SPARE.search(name)]
    return kept or files


def index_problems(index: JsonFile, present: Iterable[str], tensors: Mapping[str, list[Tensor]]) -> list[Diagnostic]:
    """What an index promises and the files do not keep. `tensors` are those of each file whose header was read."""
    listed = index.data.get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
        return [_unlike(index, "has no `weight_map` of tensors to files")]
    present = set(present)
    problems = [_unlike(index, f"names {file}, which is not there") for file in sorted(set(listed.values()) - present)]
    for file in sorted(set(listed.values()) & tensors.keys()):
        promised, held = {name for name, at in listed.items() if at == file}, {t.name for t in tensors[file]}
        if promised - held:
            problems.append(
                _unlike(index, f"promises {len(promised - held)} tensors in {file} that it does not hold, {min(promised - held)} first")
            )
        if held - promised:
            problems.append(
                _unlike(index, f"leaves out {len(held - promised)} tensors of {file}, {min(held - promised)} first", Severity.WARNING)
            )
    metadata = index.data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    stored = sum(t.bytes for held in tensors.values() for t in held)
    if _is_count(total) and not problems and total != stored:
        problems.append(_unlike(index, f"says `total_size` {total:,} and its files hold {stored:,} bytes of tensors", Severity.WARNING))
    return problems


def _unlike(index: JsonFile, what: str, severity: Severity = Severity.ERROR) -> Diagnostic:
    fix = "Download the repository whole." if severity is Severity.ERROR else "The files' own headers were taken, not the index."
    return Diagnostic(
        "CKP006",
        severity,
        f"{index.name} {what}",
        "Index and files are of different downloads or versions; a sum over them would be wrong.",
        fix,
        Place(index.name),
    )


def _broken(name: str, what: str) -> Diagnostic:
    return Diagnostic(
        "CKP005", Severity.ERROR, f"{name} {what}", "Its tensors cannot be counted, and the engine cannot load it.", _REPLACED, Place(name)
    )
