"""Helm: a chart's templates, which are no YAML until Helm has filled them in, and values of the vLLM production stack's chart.

What the chart makes of its values was read in its template `deployment-vllm-multi.yaml`, chart version 0.1.12.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.launch import Launch
from compiler.foreign.source import Source, Span, Word, word_of
from compiler.foreign.yaml_tree import Tree

# Helm's own actions; the braces of a chat template in a value hold other words.
_ACTION = re.compile(
    r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Files|Capabilities|Template)\b|\$"
    r"|(?:include|if|else|range|with|define|template|toYaml|end|required|printf|tpl)\b)"
)
_ANY = re.compile(r"\{\{.*?\}\}")
# Keys of `vllmConfig` that become an option with a value, in the chart's order.
_VALUED = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size", "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization", "maxLoras": "--max-loras",
}  # fmt: skip
_RAY, _POOLING = {"pipelineParallelSize": "--pipeline-parallel-size"}, {"runner": "--runner", "convert": "--convert"}
_OTHER_KEYS = frozenset({"v0", "v1", "enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "prometheusMultiprocDir"})
_FALSE = frozenset({"", "false", "0"})


def template_finding(source: Source) -> Diagnostic | None:
    """The one finding about a template; None for a text that is none."""
    match = _ACTION.search(_without_comments(source.text))
    fix = "Run `helm template NAME CHART -f values.yaml > manifest.yaml`, and give manifest.yaml."
    return None if match is None else _unfilled(source, match, "a Helm template, which is no manifest yet", fix)


def placeholder_finding(source: Source) -> Diagnostic | None:
    """The finding about another templating language, for a text that is no YAML; None where it holds no `{{ }}`."""
    match = _ANY.search(_without_comments(source.text))
    if match is None:
        return None
    fix = "Let the program that fills it in write its output, and give that."
    return _unfilled(source, match, f"a template: `{match[0][:60]}` is still to be filled in", fix)


def _unfilled(source: Source, match: re.Match[str], what: str, fix: str) -> Diagnostic:
    return _finding(source, "CMD011", Severity.ERROR, what, "Its values decide what it starts.", fix, Span(match.start(), match.end()))


def is_stack_values(tree: Tree) -> bool:
    """True for values of the production stack's chart."""
    models = tree.get("servingEngineSpec", "modelSpec")
    return models is not None and models.is_list


def stack_launches(source: Source, tree: Tree) -> tuple[list[Launch], list[Diagnostic]]:
    """What the chart would start for each model of its values, and keys of which it makes nothing."""
    models = tree.get("servingEngineSpec", "modelSpec")
    problems: list[Diagnostic] = []
    found = [
        _launch(source, model, problems)
        for model in (models.elements() if models is not None else [])
        if _text(model, "enabled") != "false"
    ]
    return [launch for launch in found if launch is not None], problems


def _launch(source: Source, model: Tree, problems: list[Diagnostic]) -> Launch | None:
    url, repository, tag = model.get("modelURL"), model.get("repository"), model.get("tag")
    if url is None or url.text is None:
        return None
    image = None
    if repository is not None and repository.text is not None:
        image = word_of(f"{repository.text}:{(tag.text if tag is not None else None) or 'latest'}", repository.span)
    on_ray = _true(model.get("raySpec", "enabled"))
    words = (Word(url.piece(), url.span), *_options(model), *_config(model.get("vllmConfig"), on_ray), *_last(model))
    problems += _unread(source, model.get("vllmConfig"), on_ray)
    gpus = _text(model, "requestGPU")
    count = int(gpus) if gpus.isdigit() and not on_ray else None
    return Launch(source, words, dict(_environment(model)), image, _text(model, "name"), url.span, count, mounts=())


def _options(model: Tree) -> Iterator[Word]:
    """Options that stand beside `vllmConfig`."""
    for key, option in (("enableLoRA", "--enable-lora"), ("enableTool", "--enable-auto-tool-choice")):
        value = model.get(key)
        if value is not None and _true(value):
            yield word_of(option, value.span)
    yield from _valued(model, "toolCallParser", "--tool-call-parser")


def _config(config: Tree | None, on_ray: bool) -> Iterator[Word]:
    """Options of `vllmConfig`. Without Ray prefix caching is off wherever it is not asked for, whatever the engine would do by itself."""
    if config is None or not config.is_mapping:
        return
    chunked, cached = config.get("enableChunkedPrefill"), config.get("enablePrefixCaching")
    if chunked is not None:
        yield word_of("--enable-chunked-prefill" if _true(chunked) else "--no-enable-chunked-prefill", chunked.span)
    if _true(cached) or not on_ray:
        yield word_of("--enable-prefix-caching" if _true(cached) else "--no-enable-prefix-caching", (cached or config).span)
    for key, option in (_VALUED | _RAY if on_ray else _VALUED | _POOLING).items():
        yield from _valued(config, key, option)
    if on_ray:
        yield from (word_of(text, config.span) for text in ("--distributed-executor-backend", "ray"))
    extra = config.get("extraArgs")
    yield from (Word(item.piece(), item.span) for item in (extra.elements() if extra is not None else []) if item.text is not None)


def _last(model: Tree) -> Iterator[Word]:
    """Options that the chart writes behind those of `vllmConfig`."""
    yield from _valued(model, "modelRevision", "--revision")
    enabled, template = model.get("lmcacheConfig", "enabled"), model.get("chatTemplate")
    if enabled is not None and _true(enabled):
        connector = "LMCacheConnector" if _text(model.get("vllmConfig"), "v0") == "1" else "LMCacheConnectorV1"
        role = _text(model.get("lmcacheConfig"), "kvRole") or "kv_both"
        yield word_of("--kv-transfer-config", enabled.span)
        yield word_of(f'{{"kv_connector":"{connector}","kv_role":"{role}"}}', enabled.span)
    if template is not None and template.text:
        yield word_of("--chat-template", template.span)
        yield word_of(f"/templates/{template.text}", template.span)


def _valued(tree: Tree, key: str, option: str) -> Iterator[Word]:
    value = tree.get(key)
    if value is not None and value.text is not None:
        yield word_of(option, value.span)
        yield Word(value.piece(), value.span)


def _environment(model: Tree) -> Iterator[tuple[str, Word]]:
    """`env` as a container has it; tokens by name alone."""
    if model.get("hf_token") is not None:
        yield "HF_TOKEN", dataclasses.replace(word_of("", model.span), unknown=("HF_TOKEN",))
    if _text(model.get("vllmConfig"), "v0") == "1":
        yield "VLLM_USE_V1", word_of("0", model.span)
    env = model.get("env")
    for item in env.elements() if env is not None else []:
        name, value = item.get("name"), item.get("value")
        if name is None or name.text is None:
            continue
        known = value is not None and value.text is not None
        yield name.text, Word(value.piece(), value.span) if known and value is not None else Word(name.piece(), name.span, (name.text,))


def _unread(source: Source, config: Tree | None, on_ray: bool) -> Iterator[Diagnostic]:
    """Keys of `vllmConfig` that the chart does not read."""
    for key, key_tree, _ in config.items() if config is not None else []:
        if key in _VALUED or key in _OTHER_KEYS or key in (_RAY if on_ray else _POOLING):
            continue
        why = "The chart's template does not read it, so it changes nothing, without a word."
        fix = (
            "It counts with `raySpec.enabled: true` alone; else write it as an option under `extraArgs`."
            if key in _RAY
            else "Write it as an option under `extraArgs`."
        )
        yield _finding(source, "CMD010", Severity.WARNING, f"`vllmConfig.{key}` has no effect", why, fix, key_tree.span)


def _text(tree: Tree | None, key: str) -> str:
    value = tree.get(key) if tree is not None else None
    return (value.text or "") if value is not None else ""


def _true(value: Tree | None) -> bool:
    return value is not None and (value.text or "").lower() not in _FALSE


def _without_comments(text: str) -> str:
    """The text with each comment line blank, at the same places."""
    return re.sub(r"^[ \t]*#[^\n]*", lambda line: " " * len(line[0]), text, flags=re.MULTILINE)


def _finding(source: Source, code: str, severity: Severity, what: str, why: str, fix: str, span: Span) -> Diagnostic:
    return source.finding(code, severity, what, why, fix, span)
