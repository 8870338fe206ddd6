"""Rules speak in keys of specs; here their messages are put into the words of a command line: options, variables, and nothing of the product.

One place for all rules: no rule knows whether its subject was a profile or somebody's command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from compiler.foreign.options import Arguments
from compiler.schema.flags import Flag, FlagTable

_SECTIONS = r"(?:settings\.|engine_args\.|engine\.)"
_KEY = re.compile(rf"(?<![-\w./'\"])({_SECTIONS})?([a-z][a-z0-9]*(?:_[a-z0-9]+)*)(?![\w(/'\"]|\.\w)")
_SWITCH = re.compile(r"\bset (`?)(--[a-z0-9-]+)\1 to (true|false)\b")
_QUOTED = re.compile(r"`(--[a-z0-9-]+): ([^`]*)`")
_ORDER = re.compile(r"\b(?:set|unset|leave|drop|remove|write|lower|raise|keep|turn) $")
# What a profile has keys for and a command line writes otherwise. Patterns, tried in this order before options are looked for.
_PHRASES: tuple[tuple[re.Pattern[str], str], ...] = tuple((re.compile(pattern), words) for pattern, words in (
    (r"; `podwright plan [^`]*` shows every part", ""),
    (r"let the release itself answer: podwright verify", "watch its first start"),
    (r"set env ([A-Z][A-Z0-9_]*): \"([^\"]*)\" in the hardware spec", r"set \1=\2 in its environment"),
    (r"set ([A-Z][A-Z0-9_]*) to \"([^\"]*)\"", r"set \1=\2"),
    (r"set ([\w.]+): (\w+) in the hardware spec", r"set \1 to \2"),
    (r"set nccl_conf: true", "write NCCL_P2P_DISABLE=1 to ~/.nccl.conf"),
    (r"state host\.reserved, for instance \w+", "leave it some memory with gpu_memory_utilization"),
    (r"drop the override and set yarn_factor, which is written to the right place", "write the rope parameters there"),
    (r"; (?:set yarn_factor|this model has no YaRN rule)", "; a longer window needs rope parameters in hf_overrides"),
    (r"set yarn_factor to ([\d.]+)", r"set its factor to \1"),
    (r"remove yarn_factor", "remove the rope parameters"),
    (r"the spec of (\S+) has no YaRN rule", r"nothing is known of one that \1 was proven with"),
    (r"or describe the model's YaRN under context\.yarn with its evidence", "or prove a long prompt with it first"),
    (r"use kv_store \([^)]*\)", "use LMCacheMPConnector in kv_transfer_config"),
    (r"write a mapping; podwright makes JSON of it and quotes it", "write a JSON object in single quotes"),
    (r"add the tokenizer section to the model spec", "name a repaired tokenizer with --tokenizer"),
    (r"add a list patch for quantization_config\.ignore to the model spec", "add the head to quantization_config.ignore in a copy of its config.json"),
    (r", or add the release's humming extra under container\.extras", ", or install humming in the image"),
    (r"name it under `secrets`; the pod reads it from its environment", "set it in the environment"),
    (r"take the value away, create a secret at the provider, and name it under `secrets`", "give it to the container as a secret"),
    (r", or set workload\.uses_images to false", ""),
    (r", or cite a newer run in the model spec", ""),
    (r"the model spec keeps this verdict", "that is what was seen with this checkpoint"),
    (r"a release whose spec lists it", "a release that has it"),
    (r"speculation\.draft\.repo", "model in speculative_config"),
    (r"speculation\.tokens", "num_speculative_tokens"),
    (r"(?:set speculation\.method to off|turn speculation off)", "remove speculative_config"),
    (r", with this as its reason", ""),
    (r"and the profile does not show it", "and the command does not show it"),
    (r"num_speculative_tokens to", "its num_speculative_tokens to"),
))  # fmt: skip


def in_options(text: str, flags: FlagTable, given: Arguments) -> str:
    """A rule's sentence with options as this command line writes them. `given` knows the options that the release does not."""
    for pattern, words in _PHRASES:
        text = pattern.sub(words, text)
    names = _Names(flags, given.options)
    text = _KEY.sub(names.option, text)
    text = _QUOTED.sub(lambda m: f"`{names.switched(m[1], m[2]) or f'{m[1]} {m[2]}'}`", text)
    return _SWITCH.sub(lambda m: f"write {names.switched(m[2], m[3]) or m[2]}", text)


class _Names:
    """The spellings of options."""

    def __init__(self, flags: FlagTable, given: Iterable[str]) -> None:
        self.flags, self.given = flags, frozenset(given)

    def option(self, match: re.Match[str]) -> str:
        """The option that a word means; the word itself where it means none, as `dtype` in a sentence that orders nothing."""
        section, name = match[1] or "", match[2]
        before = match.string[: match.start()]
        if before.endswith("key `") or (name not in self.given and self.flags.find(name) is None):
            return match[0]
        is_key = section or "_" in name or before.endswith("`") or _ORDER.search(before)
        return self._spelled(name) if is_key else match[0]

    def switched(self, option: str, value: str) -> str | None:
        """A switch turned on or off, as the command line says it; None for an option that takes a value."""
        flag = self._flag(option)
        if flag is None or not flag.kind.startswith("switch") or value.lower() not in ("true", "false"):
            return None
        return option if value.lower() == "true" else flag.negative or f"no {option}"

    def _spelled(self, name: str) -> str:
        flag = self.flags.find(name)
        long = [option for option in flag.options if option.startswith("--")] if flag is not None else []
        return long[0] if long else f"--{name.replace('_', '-')}"

    def _flag(self, option: str) -> Flag | None:
        dest = self.flags.by_option.get(option)
        return self.flags.flags[dest] if dest is not None else None
