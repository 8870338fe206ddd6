"""Most bytes read for a token are not in the format that the checkpoint is named after.

## What it flags
A quantized model spec that counts the bytes read per part, where more than half of them are in 16-bit parts.

## Why it hurts
Decode speed follows the bytes read. One checkpoint called INT4 reads 86 per cent of its bytes in BF16 (attention,
shared expert, head): 4.51 GB for each token, as much as its FP8 sibling and twice the NVFP4 one.

## Example
    model: ornith-awq            # INT4 on routed experts only

## Use instead
A checkpoint that quantizes the dense parts too, where the card has kernels for it.

## When to ignore
When the checkpoint was chosen for another reason; the plan's report shows the bytes.

## Source
`ornith-awq-bytes-read`, `ornith-fp8-bytes-read`, `ornith-nvfp4-bytes-read`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT014", name="name-hides-bytes-read", severity=Severity.INFO, traps=("awq-not-really-int4", "fp8-official-trap"))


WIDE = frozenset({"bf16", "fp16", "fp32"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when wide parts dominate what is read."""
    quantization = subject.specs.model.quantization
    read = [(part.weights, part.bytes_read_per_token or 0) for part in quantization.parts]
    total, wide = sum(count for _, count in read), sum(count for weights, count in read if weights in WIDE)
    if quantization.scheme != "none" and total and wide / total > 0.5:
        yield Hit(
            subject.place("profile", "model"),
            f"{quantization.scheme}, but {wide / total:.0%} of the {total / 1e9:.2f} GB read for each token are wider",
            "decode speed follows the bytes read, not the name",
            "compare checkpoints by bytes read for each token",
        )
