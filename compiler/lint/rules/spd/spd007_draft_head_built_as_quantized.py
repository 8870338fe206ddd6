"""The checkpoint's quantization config does not except its 16-bit draft head.

## What it flags
MTP with a checkpoint whose ignore list lacks the head (`mtp_in_ignore_list: false`), unless the model spec patches
the list.

## Why it hurts
The engine builds the head as quantized and finds no such tensors: `no module or parameter named 'fc.weight'`, or a
KeyError on the head's experts. All weights are downloaded by then.

## Example
    model: a-checkpoint-without-the-patch
    speculation: {method: mtp, tokens: 2}

## Use instead
    list_patches:
      - {file: config.json, key_path: [quantization_config, ignore], append: ["re:.*mtp.*"], only_with: mtp, reason: ...}

## When to ignore
Never: the engine fails while loading.

## Source
vllm#53387, vllm#36954, vllm#52649; Ornith AWQ, whose 785 head tensors are BF16.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD007", name="draft-head-built-as-quantized", severity=Severity.ERROR, refusal=True,
    traps=("mtp-fc-wna16", "mtp-moe-wna16", "mtp-quark-undeclared", "mtp-fp8-official", "mtp-ignore-missing"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when neither the checkpoint nor a patch excepts the head."""
    quantization = subject.specs.model.quantization
    patched = any("mtp" in text for patch in subject.plan.model.config_patches for text in patch.append)
    if speculation_method(subject) == "mtp" and quantization.mtp_in_ignore_list is False and not patched:
        yield Hit(
            speculation_place(subject),
            f"the quantization config of {subject.plan.model.slug} does not except the MTP head",
            "the engine builds the head as quantized and stops while loading: no parameter named fc.weight",
            "add a list patch for quantization_config.ignore to the model spec, or turn speculation off",
        )
