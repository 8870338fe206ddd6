"""New specs to start from: valid at once, with a comment where a person must decide."""

from __future__ import annotations

import re

KINDS = ("profile", "model", "hardware", "engine")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

_PROFILE = """\
# yaml-language-server: $schema=../schemas/profile.schema.json
kind: profile
summary: My variation of {parent}.
extends: "{parent}"          # every key that is not written here comes from there
settings:
  # A choice that departs from the engine's default says why; evidence names a measurement in specs/evidence.
  max_num_seqs: {{value: 32, reason: I serve a handful of agents.}}
deploy:
  price_ceiling: {{usd_per_hour: 2.00, reason: My budget.}}
"""
_MODEL = """\
# yaml-language-server: $schema=../schemas/model.schema.json
kind: model
summary: {name}, to be described from its config.json.
checkpoint:
  repo: owner/{name}         # the Hub repository
  download: 16.4GB           # bytes of its files; `podwright lock` reads them from the Hub
served_name: "{name}"
architecture:                # from config.json; these numbers are an 8-billion dense model's
  name: Qwen3ForCausalLM
  model_type: qwen3
  family: qwen3
  layers: 36
  hidden: 4096
  intermediate: 12288
  vocab: 151936
  attention_heads: 32
  kv:
    - {{kind: full, layers: 36, kv_heads: 8, head_dim: 128}}
  reasoning: true
quantization:
  scheme: none
  activations: W16A16
  min_compute_capability: "8.0"
weights:
  loaded: 16.4GB             # all weights on all GPUs together
context:
  native: 40960
parsers: {{tool_call: hermes, reasoning: qwen3, tool_format: hermes-json}}
"""
_HARDWARE = """\
# yaml-language-server: $schema=../schemas/hardware.schema.json
kind: hardware
summary: {name}, to be described.
gpu:
  name: NVIDIA GeForce RTX 4090      # as nvidia-smi prints it
  runpod_ids: []                     # exact RunPod ids, when it is rented there
  architecture: ada
  compute_capability: "8.9"
  vram_mib: 24564                    # as nvidia-smi prints it
count: 1
interconnect: {{kind: none, peer_to_peer: false}}
host:
  kind: owned-linux                  # rented, owned-linux or wsl2
  drives_display: false              # true when a desktop uses the first GPU
"""
_ENGINE = """\
# yaml-language-server: $schema=../schemas/engine.schema.json
kind: engine
summary: {name}, to be described.
distribution: vllm
release: "0.27.1"            # the release that it is, quoted; change it here, in the tag below and in the snapshot
cuda: "13.0"                 # CUDA of its torch
min_driver: 580              # driver major from which that CUDA runs without cuda-compat
torch: "2.13.0"
transformers: "5.24.0"
images:
  - recipe: vllm-openai      # the official image; vllm-venv installs the release itself and needs a `lock`
    image: vllm/vllm-openai:v0.27.1
    python: "3.12"
    has_nvcc: true
    public_entrypoint: true
# The options of 0.27.1, which podwright ships. For any other release take the snapshot anew, inside that release's own
# environment: `python snapshot_flags.py` (images/engine/), and keep its output beside this file as flags/{name}.json.
# Until then options are checked against the wrong release, and ENG020 says so.
flags: flags/vllm-0.27.1.json
features: [mtp-async-scheduling, native-anthropic]      # what rules may count on; leave out what the release lacks
limits: [hybrid-prefix-cache-off-by-default]
"""
_TEXTS = {"model": _MODEL, "hardware": _HARDWARE, "engine": _ENGINE}
_FOLDERS = {"profile": "profiles", "model": "models", "hardware": "hardware", "engine": "engines"}
STARTING_PROFILE = "nemotron-ada"


def new_spec(kind: str, name: str, extends: str | None = None) -> tuple[str, str]:
    """Path below a folder of specs, and text, of a new spec of a kind in `KINDS`."""
    text = _PROFILE.format(parent=extends or STARTING_PROFILE) if kind == "profile" else _TEXTS[kind].format(name=name)
    return f"{_FOLDERS[kind]}/{name}.yaml", text


def schema_files() -> dict[str, str]:
    """The JSON Schemas that new specs point their editor to, by path below a folder of specs."""
    from compiler.schemas import schema_bundle

    return {f"schemas/{a.path}": a.text for a in schema_bundle().artifacts}


def starting_files() -> dict[str, str]:
    """Files of a new folder of specs, by path: a first profile and the schemas that editors check with."""
    path, text = new_spec("profile", "my-first")
    return {path: text} | schema_files()
