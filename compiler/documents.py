"""The generated pages: every spec field, every rule, the README's tables and the plots. Pure: specs and docstrings to Markdown and SVG."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from compiler.command_support import Exit
from compiler.diagnostics import Severity
from compiler.evidence.plots import plots
from compiler.lint.pages import rule_pages
from compiler.load import SpecStore, data_root, image_files, load_specset
from compiler.load.codes import CODES
from compiler.pipeline import compiled
from compiler.plan.core import Plan
from compiler.render.report import FindingCounts, report
from compiler.resolve import resolve_plan
from compiler.schema import FOLDERS, Choice
from compiler.schemas import KINDS_WITH_SCHEMA

PICTURED = "nemotron-ada"
_EXIT_MEANINGS = {
    Exit.OK: "Fine.", Exit.REFUSED: "A finding is an error, or with `--strict` a warning. That profile was not written; `plan` still prints it. Or `deploy` was not done, for reasons that it lists; `secrets --check` found one missing; `explain --log` knows no cause; `plan --solve` finds nothing, or `fit` nowhere.", Exit.USAGE: "Wrong usage: an unknown option, profile kind or route.",
    Exit.DRIFTED: "`build --check`, `schema --check` or `docs --check` found files that differ.", Exit.FAILED: "The machine stood in the way: disk, permissions, Docker, network, the provider, a pod that does not serve; or a command about pods, publications, keys or secrets lacks what its message names.",
    Exit.INTERRUPTED: "Interrupted. Bundles on disk are as they were; a pod that was being made was terminated.",
}  # fmt: skip


def pages(store: SpecStore, readme: str) -> dict[str, str]:
    """All generated pages by path, the README with its generated parts among them."""
    found = {f"docs/specs/{kind}.md": _spec_page(kind, model) for kind, model in KINDS_WITH_SCHEMA.items()}
    found["docs/exit-codes.md"] = "# Exit codes\n\n| code | meaning |\n|---|---|\n" + "".join(f"| {int(code)} | {text} |\n" for code, text in _EXIT_MEANINGS.items())
    found |= {f"docs/rules/{name}": text for name, text in rule_pages().items()}
    found["docs/rules/reading.md"] = _codes_page()
    found |= {f"docs/plots/{name}.svg": text for name, text in plots(store).items()}
    plans = {name: resolve_plan(specs) for name in store.names("profile") if (specs := load_specset(store, name)[0]) is not None}
    found["README.md"] = _filled(readme, {"profiles": _profile_table(plans), "report": _picture(store)})
    return found


def _filled(text: str, parts: dict[str, str]) -> str:
    """The text with what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    for name, part in parts.items():
        head, begin, rest = text.partition(f"<!-- begin {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end {name} -->")
        text = head + begin + part + end + tail if begin and end else text
    return text


def _profile_table(plans: dict[str, Plan]) -> str:
    rows = ["| profile | model | GPU | context | KV cache tokens | speculation | USD/h |", "|---|---|---|---|---|---|---|"]
    for name, plan in plans.items():
        hardware, memory = plan.hardware, plan.memory
        price = f"{plan.deploy.price_usd_h:.2f} ({plan.deploy.price_date})" if plan.deploy.price_usd_h is not None else "own" if hardware.host != "rented" else "-"
        swap = "".join(f" + {m.model.repo.rpartition('/')[2]}" for m in plan.swap.members) if plan.swap else ""
        rows.append(
            f"| `{name}` | {plan.model.repo.rpartition('/')[2]}{swap} | {hardware.count} x {hardware.name.removeprefix('NVIDIA ')} | {plan.engine.max_model_len:,} "
            f"| {memory.kv_tokens.mid:,.0f} | {plan.engine.speculation} | {price} |"
        )
    return "\n".join(rows) + "\n"


def _picture(store: SpecStore) -> str:
    """What a build prints on stdout, with its real number of findings."""
    specs, _ = load_specset(store, PICTURED)
    assert specs is not None, f"{PICTURED} is shipped"
    result = compiled(specs, image_files(data_root()))
    counts = FindingCounts(*(sum(d.severity is s for d in result.diagnostics) for s in Severity))
    return f"```console\n$ make build PROFILE={PICTURED}\n{report(result.plan, counts, f'build/{PICTURED}').rstrip()}\n```\n"


def _codes_page() -> str:
    rows = "".join(f"| {code} | {what} | {fix} |\n" for code, (what, fix) in CODES.items())
    return f"# Findings of reading specs\n\nThese come before any rule runs; they cannot be ignored.\n\n| code | what it means | what helps |\n|---|---|---|\n{rows}"


def _spec_page(kind: str, model: type[BaseModel]) -> str:
    folder = FOLDERS.get(kind, "locks")
    head = f"# {kind.capitalize()} spec\n\n{_doc(model)}\n\nFiles: `specs/{folder}/<name>.yaml`. Schema for editors: `specs/schemas/{kind}.schema.json`.\n"
    sections: dict[str, type[BaseModel]] = {}
    _collect(model, sections)
    return head + "".join(_section(name, section) for name, section in {"": model, **sections}.items())


def _collect(model: type[BaseModel], sections: dict[str, type[BaseModel]]) -> None:
    """Models that a spec nests, by class name, in reading order."""
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            if inner.__name__ not in sections and not issubclass(inner, Choice):
                sections[inner.__name__] = inner
                _collect(inner, sections)


def _section(name: str, model: type[BaseModel]) -> str:
    title = f"\n## {name}\n\n{_doc(model)}\n" if name else "\n## Keys\n"
    rows = [f"| `{key}` | {_type_text(f)} | {_default_text(f)} | {_cell(f.description or '')} |\n" for key, f in model.model_fields.items()]
    return f"{title}\n| key | value | default | meaning |\n|---|---|---|---|\n" + "".join(rows)


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value == () or value == {}:
        return ""
    return "see there" if isinstance(value, BaseModel) else _cell(f"`{value if not isinstance(value, tuple) else ', '.join(map(str, value))}`")


def _type_text(field: FieldInfo) -> str:
    return _cell(_annotation_text(field.annotation))


def _annotation_text(annotation: Any) -> str:
    """An annotation in a reader's words."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotation_text(args[0])
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in args)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_annotation_text(a) for a in args if a is not type(None)))
    if origin is tuple:
        return f"list of {_annotation_text(args[0])}"
    if origin is dict:
        return f"mapping to {_annotation_text(args[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return f"{_annotation_text(annotation.model_fields['value'].annotation)}, or with its reason"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(annotation, "any")


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation, *_models(annotation.model_fields["value"].annotation)] if issubclass(annotation, Choice) else [annotation]
    return [model for arg in typing.get_args(annotation) for model in _models(arg)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
