"""Plan and findings -> `PLAN.md`: everything that was decided, for the person who pays for it."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Sequence

from compiler.artifact import Artifact
from compiler.diagnostics import Diagnostic
from compiler.plan import Plan
from compiler.plan.core import Decision, Override
from compiler.render.connect import POWERSHELL_PATH, SHELL_PATH, endpoint_address, proxy_suffix
from compiler.render.environment import rendered
from compiler.render.manifest import override_options
from compiler.render.report import device_name, interval_text, memory_lines, price_text, speed_lines
from compiler.units import grouped

PATH = "PLAN.md"
# What Markdown would take for a mark-up of its own; code spans keep theirs.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


@dataclasses.dataclass(frozen=True, slots=True)
class _Table:
    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_plan_document(plan: Plan, findings: Sequence[Diagnostic], deploy_notes: Sequence[str]) -> Artifact:
    """`PLAN.md`. `deploy_notes` are the target's own paragraphs on starting the bundle by hand, in Markdown."""
    values: dict[str, object] = {
        "profile": text(plan.profile), "summary": text(plan.summary), "facts": _facts(plan), "memory": memory_lines(plan.memory, device_name(plan)),
        "speed": _speed_notes(plan), "memory_notes": [text(note) for note in (*plan.memory.reasons, *plan.memory.notes)], "findings": _finding_lines(findings),
        "deploy_notes": [*image_notes(plan), *deploy_notes], "missing": _missing_notes(plan), "connect_notes": _connect_notes(plan), "argv": argv_lines(plan.engine.argv),
        "tables": [table for table in _tables(plan) if table.rows],
    }  # fmt: skip
    document = rendered("PLAN.md.j2", **values).decode()
    return Artifact(PATH, (re.sub(r"\n{3,}", "\n\n", document).rstrip("\n") + "\n").encode())


def text(value: str) -> str:
    """`value` as one line of Markdown that shows it as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(value.split()))


def code(value: str) -> str:
    """`value` as a code span that survives a table cell, whatever it holds."""
    line = " ".join(value.split())
    if not line:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    inner = f" {line} " if line.startswith("`") or line.endswith("`") else line
    return f"{fence}{inner}{fence}".replace("|", "\\|")


def argv_lines(argv: Sequence[str]) -> list[str]:
    """A command line for a reader: shell-quoted, the program first, then one option a line with its values."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    return [("    " if i else "") + " ".join(shlex.join(line).split("\n")) for i, line in enumerate(lines) if line]


def _facts(plan: Plan) -> list[tuple[str, str]]:
    model, memory = plan.model, plan.memory
    revision = f"at {code(model.revision)}" if model.revision else "(generated in the pod)" if model.generated else f"(mounted at {model.folder})" if model.folder else "(revision not locked)"
    kernel = f", kernel {text(model.kernel)}" if model.kernel else ""
    return [
        ("Model", f"{code(model.repo)} {revision}, {text(model.quantization)}{kernel}"),
        ("Served names", ", ".join(code(name) for name in model.served_names)),
        ("Hardware", f"{plan.hardware.count} x {text(plan.hardware.name)}, compute capability {plan.hardware.compute_capability}"),
        ("Engine", f"{plan.engine.distribution} {plan.engine.release}, model runner {plan.engine.runner}"),
        ("Image", f"{code(plan.image.reference)} from {code(plan.image.base_reference)}"),
        ("Context", f"{grouped(plan.engine.max_model_len)} tokens, native {grouped(model.native_context)}"
                    + (f", YaRN factor {model.yarn_factor:g}" if model.yarn_factor else "")),
        ("KV cache", f"{interval_text(memory.kv_tokens)} tokens, {text(plan.engine.kv_cache_dtype)}, {memory.bytes_per_token:,.0f} bytes a token on each {device_name(plan)}"),
        ("Concurrency", f"{interval_text(memory.concurrency, '{:.2f}')} full windows at once, up to {plan.engine.max_num_seqs} sequences"),
        ("Speculation", text(plan.engine.speculation)),
        ("Price", text(price_text(plan))),
        ("Disk", f"{plan.storage.container_disk_gb} GB, {plan.storage.needed_disk_gb:g} GB needed"),
        ("Bridge", f"{plan.bridge.mode}, port {plan.network.endpoint_port}"),
    ]  # fmt: skip


def _speed_notes(plan: Plan) -> list[str]:
    """What is expected, by which sum, and the records that calibrate it."""
    speed = plan.speed
    if speed.basis == "none":
        return [text(line) for line in speed_lines(speed)]
    records = f"Calibrated by {', '.join(code(e) for e in speed.evidence)}: they are no proof of it."
    return [*(text(line) for line in speed_lines(speed)), text(f"{speed.reason} One session: {speed.law}."), records]


def _finding_lines(findings: Sequence[Diagnostic]) -> list[str]:
    ordered = sorted(findings, key=lambda d: (d.severity.rank, d.code, str(d.place), d.what))
    return [f"{d.code} {d.severity}, {code(str(d.place))}: {_message(d.what)}\n  - Why: {_message(d.why)}\n  - Fix: {_message(d.fix)}" for d in ordered] or ["None."]


def _message(value: str) -> str:
    """A finding's text: what it set in backticks stays code, everything else is shown as it is."""
    parts = value.split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return "".join(code(part) if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts)).replace("\n", " ")


def image_notes(plan: Plan) -> list[str]:
    """What comes before a start: the image that the pod runs must exist where it is pulled from."""
    if not plan.image.prebaked:
        return []
    build = f"Build the image on a machine with a Docker engine: {code(f'podwright image {plan.profile}')}, or {code(f'docker build -t {plan.image.name} .')} in this folder."
    if plan.target != "runpod":
        return [build]
    push = f"Push it to a registry that RunPod reaches, name it in the profile's {code('container.name')} and build the bundle again: {code(plan.image.name)} is what the request asks for."
    return [f"Fix commits and digests where the network allows: {code(f'podwright lock {plan.profile}')}.", build, push]


def _missing_notes(plan: Plan) -> list[str]:
    """What the plan holds and this version of the runtime does not do yet, so that nobody rents a pod for it."""
    return ["starting the desktop"] if plan.desktop is not None else []


def _connect_notes(plan: Plan) -> list[str]:
    fixed = endpoint_address(plan)
    address = fixed or f"https://POD_ID{proxy_suffix(plan)}"
    argument = "" if fixed else " POD_ID"
    key = plan.bridge.api_key_env
    return [
        f"The endpoint is {code(address)}.",
        f"bash or zsh: {code(f'. ./{SHELL_PATH}{argument}')}, then {code('claude')}. PowerShell: {code(f'. ./{POWERSHELL_PATH}{argument}')}.",
        f"Its key is the value of {code(key)}; the scripts read it from that variable or ask for it." if key else "It asks for no key.",
        f"By hand, first of all unset {', '.join(code(name) for name in plan.client.unset)}, then set the variables below.",
        *(text(note) for note in plan.client.notes),
    ]


def _tables(plan: Plan) -> Iterable[_Table]:
    yield _Table("Engine settings", ("Setting", "On the command line", "From", "Reason"), tuple(_setting_rows(plan)))
    variables = [*(("engine", v) for v in plan.engine.env), *(("pod", v) for v in plan.pod_env)]
    yield _Table("Environment", ("Variable", "Value", "Of", "Why"), tuple((code(v.name), code(v.value), of, text(v.why)) for of, v in variables))
    yield _Table("Secrets", ("Variable", "Secret", "Needed", "For"), tuple(
        (code(s.env), code(s.provider_name), "yes" if s.required else "no", text(s.purpose)) for s in plan.secrets))
    yield _Table("Ports", ("Port", "Purpose"), tuple((code(str(port)), text(port.purpose)) for port in plan.network.ports))
    yield _Table("Client variables", ("Variable", "Value", "Why"), tuple((code(v.name), code(v.value), text(v.why)) for v in plan.client.env))
    yield _Table("Patches", ("Where", "What", "Reason"), tuple(_patch_rows(plan)))
    yield _Table("Levers in an emergency", ("Variable", "Must match", "Effect", "Changes"), tuple(
        (code(o.name), code(o.pattern), text(o.effect), _acts_on(o, option)) for o, option in override_options(plan)))
    others = (d for d in plan.decisions if not d.route.startswith(("engine.", "client.env.", "secrets.")))
    yield _Table("Other decisions", ("What", "Value", "From", "Reason"), tuple(
        (code(d.route), code(d.value), _origin(d), _reason(d)) for d in others))


def _acts_on(override: Override, option: str | None) -> str:
    """What a lever changes: an engine option, something that the runtime does, or a phase of the bootstrap."""
    if override.setting.startswith("runtime."):
        return "the runtime"
    return code(option) if option else "the bootstrap"


def _setting_rows(plan: Plan) -> Iterable[tuple[str, ...]]:
    decisions = {d.route: d for d in plan.decisions}
    for setting in plan.engine.settings:
        decision = decisions.get(f"engine.{setting.name}")
        why = (_origin(decision), _reason(decision)) if decision else ("", "")
        yield (code(setting.name), code(shlex.join(setting.flags)), *why)


def _patch_rows(plan: Plan) -> Iterable[tuple[str, ...]]:
    for model in (plan.model, *(m.model for m in (plan.swap.members if plan.swap else ()) if m.profile != plan.profile)):
        for patch in model.config_patches:
            yield code(f"{model.repo}: {patch.file}"), f"append {code(', '.join(patch.append))} to {code('.'.join(patch.key_path))}", text(patch.reason)
        for script in model.script_patches:
            yield code(f"{script.repo}: {script.file}"), f"run, sha256 {code(script.sha256 or 'not locked')}", text(script.reason)


def _origin(decision: Decision) -> str:
    return f"{decision.origin} {code(decision.where)}" if decision.where else decision.origin


def _reason(decision: Decision) -> str:
    return " ".join([text(decision.reason), *(f"[{code(e)}]" for e in decision.evidence)]).strip()
