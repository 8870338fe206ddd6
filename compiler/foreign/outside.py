"""What decides a start and is no option of the engine: a container's GPUs and shared memory, the weights' format, a token for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from compiler.foreign.launch import Launch
    from compiler.foreign.source import Span, Word

MIB = 2**20
DEFAULT_SHARED = 64 * MIB  # What Docker and container runtimes mount at /dev/shm when nobody says.
# For eight GPUs less than 16 GiB was reported as too little (MiniMax-AI/MiniMax-01#42); for fewer a part of 1 GiB is surely scant.
MANY_RANKS, ENOUGH_FOR_MANY, SCANT_EACH = 8, 16 * 1024 * MIB, 128 * MIB
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_OTHER_DEVICES = re.compile(r"cpu|rocm|xpu|hpu|gaudi|tpu|neuron|ascend|npu|openvino|spyre", re.IGNORECASE)
_GGUF = re.compile(r"\.gguf$|-gguf(?:$|[:/])", re.IGNORECASE)
_GGUF_LEFT = (0, 24)
# Owners whose repositories ask for an accepted licence: all of Llama, and Gemma up to its third generation.
_GATED = re.compile(r"meta-llama/|google/gemma-(?:\d+b|1\.1|[23](?:\b|n))", re.IGNORECASE)
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT")
# What starts workers on other machines, or joins them: a container's own GPUs are then not all that there are.
_CLUSTER = re.compile(r"\bray\b|LeaderWorkerSet|multi-node|--nnodes|--headless", re.IGNORECASE)
_KEY_OPTIONS, _NO_KEYS = ("--api-key", "--api_key"), ("EMPTY", "NONE", "DUMMY", "TOKEN-ABC123")
_OFFICIAL = re.compile(r"(?:docker\.io/)?vllm/vllm-openai\b")


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """What a container is given.

    `shared` is its /dev/shm in bytes, None where the host's is used or nobody can say. `has_gpus` is false only for a `docker run` in which
    nothing at all asks for a GPU, `may_have_token` only for one with neither a file of variables nor a cache from outside.
    """

    shared: int | None
    has_gpus: bool
    may_have_token: bool = True


def size_of(text: str) -> int | None:
    """Bytes of a size as `docker run` and Compose take it: 16g, 64mb, 1.5gb, or a number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _UNITS[match[2].lower()]) if match is not None else None


def docker_container(given: Mapping[str, Sequence[Word]], env: Mapping[str, Word]) -> Container:
    """The container of `docker run` with these options."""
    words = {option: [word.text for word in values] for option, values in given.items()}
    own = any("/dev/shm" in text for option in ("-v", "--volume", "--mount", "--tmpfs") for text in words.get(option, ()))
    shares_host = own or any(text != "private" for text in words.get("--ipc", ()))
    sizes = [size_of(text) for text in words.get("--shm-size", ())]
    shared = None if shares_host else sizes[-1] if sizes else DEFAULT_SHARED
    asks = any(option in given for option in ("--gpus", "--runtime", "--device", "--privileged")) or "NVIDIA_VISIBLE_DEVICES" in env
    mounted = any(re.search(r"hugging|\.cache|hf[-_]", text) for option in ("-v", "--volume", "--mount") for text in words.get(option, ()))
    return Container(shared, asks, may_have_token=mounted or "--env-file" in given)


def outside_findings(launch: Launch, model: Word | None, ranks: int, release: str, is_gguf: bool = False) -> Iterator[Diagnostic]:
    """Warnings about the container and the weights; an error for GGUF files in the engine's own image, which cannot read them.

    `ranks` are the workers of this container; `is_gguf` is true where an option names the format.
    """
    box = launch.container
    image = launch.image.text if launch.image is not None else ""
    if box is not None and not box.has_gpus and not _OTHER_DEVICES.search(image) and not any(w.text == "cpu" for w in launch.words):
        why = "The engine finds no device and ends, unless the host's default runtime hands GPUs to all."
        yield launch.source.finding("CMD012", Severity.WARNING, "the container is given no GPU", why, "Add --gpus all.", _at(launch))
    if box is not None and box.shared is not None and ranks > 1 and box.shared < _enough(ranks):
        what = f"{box.shared // MIB:,} MiB of shared memory for the workers of {ranks} GPUs"
        why = "They exchange data through /dev/shm: NCCL then fails to create its segments, at the start or under load."
        fix = "Add --ipc=host, or --shm-size 16g (Kubernetes: an emptyDir in memory at /dev/shm)."
        yield launch.source.finding("CMD013", Severity.WARNING, what, why, fix, _at(launch))
    if model is not None and not model.unknown and (is_gguf or _GGUF.search(model.text)) and _numbers(release) >= _GGUF_LEFT:
        severity = Severity.ERROR if _OFFICIAL.match(image) else Severity.WARNING
        why = f"Since 0.24 vLLM reads that format with a plugin only (vllm-gguf-plugin); without it {release} refuses."
        fix = "Take the safetensors checkpoint (AWQ, GPTQ or FP8 for a like size), or an image with the plugin."
        yield launch.source.finding("CMD014", severity, f"`{model.text}` is a GGUF file", why, fix, model.span)
    yield from _token(launch, model)
    yield from _key(launch)


def too_few_gpus(launch: Launch, size: int, backend: str) -> Iterator[Diagnostic]:
    """A warning where a container is given fewer GPUs than the tensor-parallel `size`, and nothing says that a cluster lends the others.

    `backend` is what `--distributed-executor-backend` says, empty where nothing does.
    """
    given = launch.gpus
    if given is None or not 0 < given < size or backend not in ("", "mp") or _CLUSTER.search(launch.source.text):
        return
    what = f"tensor parallelism over {size} GPUs, and the container is given {given}"
    why = "The engine finds too few devices and ends, unless a Ray cluster lends it the others."
    yield launch.source.finding("CMD017", Severity.WARNING, what, why, f"Give it {size} GPUs, or set --tensor-parallel-size {given}.", _at(launch))


def _token(launch: Launch, model: Word | None) -> Iterator[Diagnostic]:
    if model is None or model.unknown or not _GATED.match(model.text) or any(name in launch.env for name in _TOKENS):
        return
    box = launch.container
    severity = Severity.WARNING if box is not None and not box.may_have_token else Severity.INFO
    what = f"`{model.text}` is gated, and no token is given here"
    why = "The Hub refuses the download, and to look up a repository whose weights are on the disk, too."
    fix = "Accept the licence, and give HF_TOKEN from a secret; or serve a folder, with HF_HUB_OFFLINE=1."
    yield launch.source.finding("CMD015", severity, what, why, fix, model.span)


def _key(launch: Launch) -> Iterator[Diagnostic]:
    """A key that stands in the command itself, where no variable or secret brings it."""
    for before, word in zip(("", *(w.text for w in launch.words)), launch.words, strict=False):
        option, _, value = word.text.partition("=")
        given = value if option in _KEY_OPTIONS else word.text if before in _KEY_OPTIONS else ""
        if given and not word.unknown and given.upper() not in _NO_KEYS:
            why = "Whoever may list processes, read the file or its history has the key."
            fix = "Set VLLM_API_KEY from a secret (Compose: env_file; Kubernetes: secretKeyRef) and leave the option out."
            yield launch.source.finding("CMD020", Severity.INFO, "the endpoint's key stands in clear in the command", why, fix, word.span)


def _enough(ranks: int) -> int:
    return ENOUGH_FOR_MANY if ranks >= MANY_RANKS else SCANT_EACH * ranks + 1


def _at(launch: Launch) -> Span:
    return launch.image.span if launch.image is not None else launch.span


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", release)[:2])
