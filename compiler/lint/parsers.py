"""Which model families each tool and reasoning parser of the engine belongs to.

Families are patterns over `architecture.family`, or `model_type` where no pattern knows the family, in lower case with
underscores. A parser that is not listed here is nobody's in particular, and nothing is said about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from compiler.lint.rule import Subject

_KIMI_K2 = r"kimi_(k2|linear|dev).*|kimi"
_MINIMAX_M2 = r"minimax(_m2.*)?"
_MISTRAL = r"(mis|minis|mix|pix|devs|magis|codes|voxs)tral.*"
_QWEN_XML = r"qwen3_(coder|[5-9]|next).*|qwen3_moe|qwen[4-9].*|nemotron_?(h|3|v3|nano|super|ultra).*"

TOOL: Mapping[str, str] = {
    # Qwen3-Next by vLLM's own recipe (vllm-project/recipes). Granite 4 asks for the same JSON between <tool_call> marks in its template
    # (ggml-org/llama.cpp#20686); vLLM's documentation names granite4 for it.
    "hermes": r"qwen2.*|qwen3(_moe|_vl.*|_next.*)?|qwq|hermes.*|nous.*|granite_?4.*",
    "qwen3_coder": _QWEN_XML,
    "qwen3_xml": _QWEN_XML,
    "llama3_json": r"llama|llama_?3.*|mllama",
    "llama4_json": r"llama_?4.*",
    "llama4_pythonic": r"llama_?4.*",
    "mistral": _MISTRAL,
    "gemma4": r"gemma_?4.*",
    "functiongemma": r"functiongemma.*|gemma_?3.*",
    "glm45": r"glm.*",
    "glm47": r"glm.*",
    "minimax_m2": _MINIMAX_M2,
    "minimax_m3": r"minimax_m3.*",
    "kimi_k2": _KIMI_K2,
    "kimi_k3": r"kimi_k3.*",
    "deepseek_v3": r"deepseek_(v3|r1).*",
    "deepseek_v31": r"deepseek_v3.*",
    "deepseek_v32": r"deepseek_v3.*",
    "deepseek_v4": r"deepseek_v4.*",
    "openai": r"gpt_oss.*",
    "granite": r"granite.*",
    "granite4": r"granite.*",
    "step3": r"step_?3.*",
    "step3p5": r"step_?3.*",
    "seed_oss": r"seed_oss.*",
    "ernie45": r"ernie.*",
    "hunyuan_a13b": r"hunyuan.*",
    "phi4_mini_json": r"phi.*",
    "jamba": r"jamba.*",
    "internlm": r"internlm.*",
}

REASONING: Mapping[str, str] = {
    "qwen3": r"qwen[3-9].*|qwq",
    "deepseek_r1": r"deepseek.*|qwq|qwen2.*|qwen3(_moe|_next)?",
    "deepseek_v3": r"deepseek.*",
    "deepseek_v4": r"deepseek_v4.*",
    "gemma4": r"gemma_?4.*",
    "glm45": r"glm.*",
    "glm47": r"glm.*",
    "openai_gptoss": r"gpt_oss.*",
    "minimax_m2": _MINIMAX_M2,
    "minimax_m2_append_think": _MINIMAX_M2,
    "minimax_m3": r"minimax_m3.*",
    "kimi_k2": _KIMI_K2,
    "kimi_k3": r"kimi_k3.*",
    "nemotron_v3": r"nemotron.*",
    "mistral": _MISTRAL,
    "granite": r"granite.*",
    "step3": r"step_?3.*",
    "step3p5": r"step_?3.*",
    "seed_oss": r"seed_oss.*",
    "ernie45": r"ernie.*",
    "hunyuan_a13b": r"hunyuan.*",
}

_OTHERS = r"llama.*|gemma.*|phi.*"
_KNOWN = re.compile("|".join(f"(?:{row})" for row in (*TOOL.values(), *REASONING.values(), _OTHERS)))


def family(subject: Subject) -> str | None:
    """The model's family as the patterns spell it; None when no pattern knows the family nor the model type."""
    architecture = subject.specs.model.architecture
    names = (re.sub(r"[-. ]", "_", name.lower()) for name in (architecture.family, architecture.model_type))
    return next((name for name in names if _KNOWN.fullmatch(name)), None)


def is_foreign(subject: Subject, table: Mapping[str, str], parser: str) -> bool:
    """True when the parser is known, the model's family is known, and they do not belong together.

    A checkpoint that was distilled from another family keeps that family's markup and names it in its repository.
    """
    name, row = family(subject), table.get(parser)
    repo = re.sub(r"[-.]", "_", (subject.specs.model.checkpoint.repo or "").lower())
    return name is not None and row is not None and not re.fullmatch(row, name) and parser.split("_")[0] not in repo


def of_family(subject: Subject, table: Mapping[str, str], registry: str) -> list[str]:
    """Parsers of the release that belong to the model's family."""
    name, flags = family(subject), subject.specs.flags
    return [parser for parser, row in table.items() if name and re.fullmatch(row, name) and flags.knows(registry, parser)]
