"""The rules' pages as Markdown, made from the docstrings of their modules. Pure: nothing is written here."""

from __future__ import annotations

import inspect
import itertools

from compiler.lint.reach import REACH
from compiler.lint.registry import RegisteredRule, rules

SECTIONS = ("What it flags", "Why it hurts", "Example", "Use instead", "When to ignore", "Source")

FAMILIES = {
    "CTX": "Context windows, batches, scheduling",
    "ENG": "Engine options and environment",
    "HWR": "Hardware",
    "IGN": "Findings that a profile accepts",
    "IMG": "Container image",
    "KVC": "KV cache, state caches, prefix caching",
    "MDL": "What a model needs: parsers, releases, parallelism, names, media",
    "MEM": "GPU memory",
    "QNT": "Quantization and kernels",
    "SPD": "Speculative decoding",
}


def rule_pages() -> dict[str, str]:
    """File name to text: one `<CODE>.md` for each rule, and `README.md` with a table for each family."""
    return {f"{r.rule.code}.md": _page(r) for r in rules()} | {"README.md": _index(rules())}


def summary(page: str) -> str:
    """First line of a page: the offence in one sentence."""
    return inspect.cleandoc(page).split("\n", 1)[0]


def missing_sections(page: str) -> list[str]:
    """Sections that a page lacks, or that stand out of order or empty; nothing for a complete page."""
    parts = inspect.cleandoc(page).split("\n## ")
    found = [part.split("\n", 1)[0] for part in parts[1:] if part.partition("\n")[2].strip()]
    return [] if found == list(SECTIONS) else [name for name in SECTIONS if name not in found] or ["(order)"]


def _page(registered: RegisteredRule) -> str:
    rule = registered.rule
    facts = [f"`{rule.name}`", f"{rule.severity} unless the text says otherwise", _when(rule.stage)]
    if rule.refusal:
        facts.append("its errors cannot be ignored")
    if rule.code in REACH:
        facts.append(REACH[rule.code].text)
    first, _, rest = inspect.cleandoc(registered.page).partition("\n")
    return f"# {rule.code}: {first}\n\n{'; '.join(facts)}.\n{rest}\n"


def _when(stage: str) -> str:
    return {"plan": "reads specs and plan", "artifacts": "reads the rendered files"}.get(stage, "reads the profile's `ignore` entries")


def _index(all_rules: tuple[RegisteredRule, ...]) -> str:
    lines = ["# Rules", "", f"{len(all_rules)} rules. A profile accepts a finding with `ignore:`, the rule's code and a reason.", ""]
    for family, members in itertools.groupby(all_rules, key=lambda r: r.rule.family):
        title = f"## {family}: {FAMILIES[family]}" if family in FAMILIES else f"## {family}"
        lines += [title, "", "| code | name | severity | offence |", "|---|---|---|---|"]
        for r in members:
            offence = summary(r.page).replace("|", "\\|")
            lines.append(f"| [{r.rule.code}]({r.rule.code}.md) | {r.rule.name} | {r.rule.severity} | {offence} |")
        lines.append("")
    return "\n".join(lines)
