"""A backend, load format, tokenizer mode or connector has a name that the release does not know.

## What it flags
`attention_backend`, `mamba_backend`, `load_format`, `quantization`, `tokenizer_mode` or a KV connector that no registry of the release
lists. Parsers have a rule of their own. A warning for an unknown `model_impl`, and for `quantization` where the checkpoint's own method
is taken whatever it says.

## Why it hurts
The parser lets the name pass, and the engine dies after the weights were downloaded: for lack of a class of that name.

## Example
    settings: {attention_backend: FLASHINFERR}

## Use instead
    settings: {attention_backend: FLASHINFER}

## When to ignore
Where the image brings a plug-in that registers the name.

## Source
The registries in the flag snapshot of the release.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import insists_on_method, mapping
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG004", name="name-unknown-to-registry", severity=Severity.ERROR)

# Option, registry, whether case matters.
REGISTRIES = (
    ("attention_backend", "attention_backends", False),
    ("mamba_backend", "mamba_backends", False),
    ("load_format", "load_formats", True),
    ("quantization", "quantization_methods", True),
    ("kv_transfer_config", "kv_connectors", True),
    ("tokenizer_mode", "tokenizer_modes", True),
)
# Tokenizers that the engine has and its list of modes leaves out, since it takes them by itself.
UNLISTED = frozenset({("tokenizer_mode", "kimi_audio"), ("tokenizer_mode", "deepseek_v41"), ("tokenizer_mode", "terratorch")})
# No method of its own; AWQ and GPTQ checkpoints take it for the kernels that they use anyway.
KERNELS = "marlin"
# The registry of models compares with these, and takes every other text for `vllm`.
IMPLEMENTATIONS = ("auto", "vllm", "transformers", "terratorch")
_IGNORED = "the engine refuses it, or ignores it for a checkpoint that insists on its own method"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each name that its registry lacks."""
    for option, registry, exact in REGISTRIES:
        value = subject.setting(option)
        if option == "kv_transfer_config":
            config = mapping(subject, option)
            value = None if config.get("kv_connector_module_path") else config.get("kv_connector")
        known = subject.specs.flags.registries.get(registry, ())
        if not isinstance(value, str) or not value or not known or (option, value) in {("quantization", KERNELS), *UNLISTED}:
            continue
        if value not in known and (exact or value.upper() not in {name.upper() for name in known}):
            near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
            fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
            what = f"vLLM {subject.specs.flags.release} knows no `{value}` for `{option}`"
            ignored = option == "quantization" and (not subject.knows_model or insists_on_method(subject))
            why = _IGNORED if ignored else "the engine dies at start, after the download"
            yield Hit(option_place(subject, option), what, why, fix, Severity.WARNING if ignored else weight(subject))
    yield from _implementation(subject)


def _implementation(subject: Subject) -> Iterator[Hit]:
    value = subject.setting("model_impl")
    if isinstance(value, str) and value not in IMPLEMENTATIONS:
        what, why = f"model_impl is `{value}`", "the engine knows no such implementation and takes its own, without a word"
        fix = f"known: {', '.join(IMPLEMENTATIONS)}"
        yield Hit(option_place(subject, "model_impl"), what, why, fix, Severity.WARNING)
