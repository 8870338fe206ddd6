"""A launch as specs on disk: every option kept, and what nobody could know said in a comment and as a finding."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.options import Option
from compiler.foreign.source import Word
from compiler.foreign.specs import Described, clean, repository
from compiler.load import scalar
from compiler.scaffold import new_spec
from compiler.schema import EngineSettings
from compiler.secrets import find_secrets

_SECRET_NAME = re.compile(r"(^|_)(TOKEN|API_?KEY|SECRET|PASSWORD)$", re.IGNORECASE)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(\[1m\])?")
_FOLDER = re.compile(r"/[A-Za-z0-9._/-]+")
# Options that a profile has no place for, and who decides in their stead.
_ELSEWHERE = {
    "host": "the engine listens where the bridge finds it", "api_key": "`bridge.require_key` asks for one, and the runtime hands it over", "uds": "the engine has a port",
    "root_path": "clients know no such prefix", "ssl_keyfile": "TLS ends before the pod", "ssl_certfile": "TLS ends before the pod",
    "headless": "the runtime needs the HTTP server", "grpc": "the runtime needs the HTTP server", "config": "write its keys here, its file was not read",
    "revision": "set `checkpoint.revision` in the model's spec", "tokenizer": "set `tokenizer` in the model's spec", "tokenizer_revision": "set `tokenizer` in the model's spec",
    "hf_token": "it is among `secrets`",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """Files by their path below a folder of specs, and what a person must still decide."""

    files: Mapping[str, str]
    findings: tuple[Diagnostic, ...]


class _Profile:
    """The profile's text, section by section."""

    def __init__(self, described: Described, name: str) -> None:
        self.d, self.name = described, name
        self.findings: list[Diagnostic] = []
        self.comments: list[str] = []
        self.settings: dict[str, Any] = {}
        self.engine_args: dict[str, Any] = {}
        self.env: dict[str, str] = {}
        self.secrets: list[str] = []
        self.names: list[str] = []
        self.port: int | None = None

    def read(self) -> None:
        """Gives each option and each variable its place."""
        for dest in sorted(self.d.arguments.options):
            self._option(self.d.arguments.options[dest])
        for name in sorted(self.d.launch.env):
            self._variable(name, self.d.launch.env[name])
        count = self.d.specs.hardware.count if self.d.hardware else 1
        if count > 1 and not {"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"} & self.d.arguments.options.keys():
            self.settings["tensor_parallel_size"] = 1  # What the engine does unasked; a profile would use every GPU.

    def _option(self, o: Option) -> None:
        if o.unknown:
            self._left_out(o.dest, f"its value hangs on {', '.join(o.unknown)}", o)
        elif o.dest == "served_model_name" and all(isinstance(n, str) and _SERVED.fullmatch(n) for n in _several(o.value)):
            self.names = [str(n) for n in _several(o.value)]
        elif o.dest == "port" and isinstance(o.value, int) and 0 < o.value < 65536:
            self.port = o.value
        elif o.dest == "hf_token" or _holds_secret(o.value):
            self._secret("HF_TOKEN" if o.dest == "hf_token" else o.dest.upper())
            self._left_out(o.dest, "it holds a secret", o)
        elif o.dest in _ELSEWHERE or o.dest in ("served_model_name", "port"):
            self._left_out(o.dest, _ELSEWHERE.get(o.dest, "its value is no name or port"), o)
        elif o.dest in EngineSettings.model_fields and _fits(o.dest, clean(o.value)):
            self.settings[o.dest] = clean(o.value)
        else:
            self.engine_args[o.dest] = clean(o.value)

    def _variable(self, name: str, word: Word) -> None:
        if not _ENV_NAME.fullmatch(name):
            return
        if _SECRET_NAME.search(name) or find_secrets(word.text):
            self._secret(name)
        elif word.unknown:
            self.comments.append(f"env {name}: its value comes from outside")
            what = f"the value of {name} comes from outside and is not taken over"
            self._finding(what, "The engine would start without it.", f"Write `env: {{{name}: ...}}` in the profile.", word)
        else:
            self.env[name] = str(clean(word.text))

    def _secret(self, name: str) -> None:
        if name not in self.secrets:
            self.secrets.append(name)

    def _left_out(self, dest: str, why: str, o: Option) -> None:
        self.comments.append(f"{dest}: {why}")
        self._finding(
            f"`{dest}` is not taken over", f"A profile has no place for it: {why}.", "Nothing, unless you counted on its value.", o
        )

    def _finding(self, what: str, why: str, fix: str, at: Option | Word) -> None:
        self.findings.append(self.d.launch.source.finding("CMD009", Severity.INFO, what, why, fix, at.span))

    def text(self, model: str, hardware: str) -> str:
        """The file."""
        origin = f"{self.d.launch.source.path}{f', {self.d.launch.name}' if self.d.launch.name else ''}"
        lines = [
            "# yaml-language-server: $schema=../schemas/profile.schema.json",
            f"# Imported from {clean(origin)}. What the command left open follows podwright's defaults: `podwright plan {self.name}` shows them.",
            *(f"# Not taken over: {clean(comment)}" for comment in self.comments),
            "kind: profile",
            f"summary: {scalar(f'{self.name}, imported, to be described.')}",
            f"model: {scalar(model)}",
            f"hardware: {scalar(hardware)}",
            f"engine: {scalar(self.d.release.name)}  # {clean(self.d.release.said)}",
            "target: docker",
            *_section("settings", self.settings),
            *_section("engine_args", self.engine_args),
            *(["names:", *(f"  - {{name: {scalar(n)}}}" for n in self.names)] if self.names else []),
            *(["bridge:", f"  port: {self.port}  # where clients reached the engine"] if self.port else []),
            *_section("env", self.env),
            *(
                ["secrets:", *(f"  - {{env: {name}, purpose: the imported command had it}}" for name in self.secrets)]
                if self.secrets
                else []
            ),
        ]
        return "\n".join(lines) + "\n"


def imported(described: Described, name: str) -> Imported:
    """The profile `name` of a launch, with stubs for a model and a hardware that no spec describes."""
    profile = _Profile(described, name)
    profile.read()
    files: dict[str, str] = {}
    findings = list(profile.findings)
    model, hardware = described.model or f"{name}-model", described.hardware or f"{name}-hardware"
    if described.model is None:
        path, text = new_spec("model", model)
        files[path] = _model_stub(text, model, described)
        findings.append(_stub(described, "model", path, "its config.json and its weights"))
    if described.hardware is None:
        path, text = new_spec("hardware", hardware)
        files[path] = _HEAD.format(what="card") + text
        findings.append(_stub(described, "hardware", path, "nvidia-smi; or give --hardware"))
    if not described.release.exact:
        what = f"the profile names {described.release.name}: {described.release.said}"
        why, fix = (
            "Another release has other options and other faults.",
            "Describe the release with `podwright new engine`, or take the one that is named.",
        )
        findings.append(described.launch.source.finding("CMD009", Severity.WARNING, what, why, fix, described.launch.span))
    path, _ = new_spec("profile", name)
    files[path] = profile.text(model, hardware)
    return Imported(files, tuple(findings))


_HEAD = "# A stub, and none of its numbers is known to be this {what}'s: replace each of them.\n"


def _model_stub(text: str, slug: str, d: Described) -> str:
    """The stub of `podwright new model` with the checkpoint that the command names."""
    named = d.arguments.model.text if d.arguments.model is not None and not d.arguments.model.unknown else ""
    if repository(d.arguments) is not None:
        text = text.replace(f"repo: owner/{slug}", f"repo: {named}")
    elif _FOLDER.fullmatch(named):
        text = text.replace(f"repo: owner/{slug}", f"folder: {named}")
    return _HEAD.format(what="model") + text


def _stub(d: Described, kind: str, path: str, where: str) -> Diagnostic:
    span = d.arguments.model.span if d.arguments.model is not None else d.launch.span
    what = f"no spec describes the {kind}: {path} is a stub with another one's numbers"
    return d.launch.source.finding(
        "CMD009",
        Severity.WARNING,
        what,
        "Memory, and every rule that asks for it, are judged by those numbers.",
        f"Fill it in, from {where}.{_maker(d, kind, path)}",
        span,
    )


def _maker(d: Described, kind: str, path: str) -> str:
    """For a model of the Hub: the command that writes the spec from the checkpoint's own files."""
    named = repository(d.arguments) if kind == "model" else None
    if named is None:
        return ""
    return f" Or remove the stub, and `podwright new model {named} --as {PurePosixPath(path).stem}` reads them itself."


def _section(name: str, values: Mapping[str, Any]) -> list[str]:
    return [f"{name}:", *(f"  {scalar(key)}: {_written(value)}" for key, value in values.items())] if values else []


def _written(value: Any) -> str:
    """A value on one line; a mapping with a key `value` would be taken for the long form of a choice."""
    text = scalar(value)
    return f"{{value: {text}}}" if isinstance(value, dict) and "value" in value else text


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _fits(dest: str, value: Any) -> bool:
    try:
        EngineSettings.model_validate({dest: {"value": value}})
    except ValidationError:
        return False
    return True


def _holds_secret(value: Any) -> bool:
    return bool(find_secrets(value if isinstance(value, str) else json.dumps(value, default=str)))
