"""What an engine's last words mean: a kind, the cause in a few words, and the cure. Texts of vLLM 0.26 to 0.33 and its libraries.

Sources: starts of the real 0.27.1 that failed on purpose (tests/unit/pod/journal/fixtures), the failure reports and traps that
specs/evidence and the rule pages cite.
"""

from __future__ import annotations

import dataclasses
import re

# Kinds that no restart on this machine can cure.
SICK_HOST = "sick-host"
# A process of the engine is gone, and nobody says why.
KILLED = "killed"
# What vLLM's server says, as a warning, when the process that holds the model has gone without a word. Seen with 0.26.0 on an H200.
CORE_GONE = "engine core exited unexpectedly"


@dataclasses.dataclass(frozen=True)
class Error:
    """`kind` is for programs, `cause` and `cure` for people. `other` is an exception that no row knows."""

    kind: str
    cause: str
    cure: str = ""

    @property
    def is_known(self) -> bool:
        return self.kind != "other"


_NEW_HOST = "Nothing in the container repairs it: end this pod and create another one, on another host"
_LESS_MEMORY = "lower gpu_memory_utilization or max_num_batched_tokens, capture fewer graphs, or take a larger card"

# In this order; the first that matches names the line. `{0}` is the pattern's first group.
_ROWS = tuple((kind, re.compile(pattern), cause, cure) for kind, pattern, cause, cure in (
    (SICK_HOST, r"unspecified launch failure", "CUDA error: unspecified launch failure", _NEW_HOST),
    (SICK_HOST, r"No CUDA GPUs are available", "CUDA sees no GPU", _NEW_HOST),
    (SICK_HOST, r"Error 802: system not yet initialized", "the host's fabric manager is not running (CUDA error 802)", _NEW_HOST),
    (SICK_HOST, r"adjusted local rank (\d+ is out of bounds for \d+ devices?)", "a GPU is missing: local rank {0}", _NEW_HOST),
    (SICK_HOST, r"uncorrectable (?:NVLink|ECC) error", "the GPU reports an uncorrectable memory or link error", _NEW_HOST),
    (SICK_HOST, r"(?i)GPU (?:is lost|has fallen off the bus)", "a GPU fell off the bus", _NEW_HOST),
    (SICK_HOST, r"libnvidia-ml\.so[.\w]*: cannot open|NVML: (?:Driver/library version mismatch|Unknown Error)",
     "the driver's library cannot be used in this container", _NEW_HOST),
    ("old-driver", r"driver on your system is too old \(found version (\d+)\)",
     "the host's driver is too old (CUDA {0})", "create the pod with the CUDA version that the profile pins"),
    ("old-driver", r"forward compatibility was attempted on non supported HW",
     "CUDA forward compatibility does not work on this card",
     "create the pod on a host whose driver has the CUDA version of the image"),
    ("kv-too-small", r"To serve at least one request.*?\(([\d.]+ GiB) KV cache is needed",
     "the KV cache is smaller than one full window, which needs {0}",
     "lower max_model_len, raise gpu_memory_utilization, or take fp8 KV"),
    ("kv-too-small", r"No available memory for the cache blocks",
     "weights and activations leave no memory for the KV cache", _LESS_MEMORY),
    ("memory-not-free", r"Free memory on device.{0,60}\(([\d.]+/[\d.]+ GiB)\) on startup is less than desired",
     "GPU memory is held by something else: {0} free at start",
     "wait until the former engine's memory is free; see nvidia-smi for its owner"),
    ("out-of-memory", r"(?:OutOfMemoryError|CUDA out of memory).*?Tried to allocate ([\d.]+ [KMG]iB)",
     "out of GPU memory, {0} more were asked for", _LESS_MEMORY),
    ("out-of-memory", r"OutOfMemoryError|CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED", "out of GPU memory", _LESS_MEMORY),
    ("no-shared-memory", r"creating shared memory segment|/dev/shm.*No space left",
     "shared memory is too small", "create the pod with a larger /dev/shm"),
    ("no-room", r"No space left on device|Disk quota exceeded",
     "the disk is full", "create the pod with the disk that the plan asks for, or free room"),
    ("gated", r"Cannot access gated repo|access a gated repo|GatedRepoError|Access to model \S+ is restricted",
     "the model is gated and this token may not read it", "accept the model's licence with the token's account, then publish again"),
    ("bad-token", r"Invalid (?:username or password|credentials in Authorization header|user token)|401 Client Error.*whoami",
     "the Hub refuses the token", "put a valid token into the pod's secret"),
    ("not-found", r"(\S+) is not a local folder and is not a valid model identifier",
     "the Hub knows no model {0}, or hides it from this token", "check the name in the profile, and that the token may read it"),
    ("not-found", r"Repository Not Found|RepositoryNotFoundError|RevisionNotFoundError|Invalid rev id",
     "the Hub knows no such model or revision", "check name and revision in the profile, and that the token may read it"),
    ("offline", r"outgoing traffic has been disabled|LocalEntryNotFoundError|couldn't connect to '?https?://",
     "files of the model are missing and the Hub is out of reach", "unset HF_HUB_OFFLINE, or bring the weights"),
    ("no-weights", r"Cannot find any model weights with `?([^`\s]+)`?",
     "{0} holds no weights", "measure the folder; mount the volume or download the weights again"),
    ("broken-weights", r"SafetensorError|Error while deserializing header|MetadataIncompleteBuffer",
     "a weight file is damaged or cut off", "remove that file and let the runtime download it again"),
    ("bad-argument", r"error: unrecognized arguments: (.{1,200})",
     "the engine does not know {0}", "publish a profile that was compiled for this engine release"),
    ("bad-argument", r"vllm(?: serve)?: error: (.{1,200})",
     "the engine refuses its arguments: {0}", "correct the setting in the profile and publish"),
    ("bad-config", r"Value error, (.{1,200})",
     "the engine refuses its configuration: {0}", "correct the setting in the profile and publish"),
    ("port-taken", r"\[Errno 98\].*[Aa]ddress already in use",
     "the engine's port is taken", "end what listens there; an engine that outlived its group is the usual owner"),
    ("unknown-model", r"does not recognize this architecture|are not supported for now|has no vLLM implementation",
     "this engine release does not know the model's architecture", "take an engine release that does; the model's spec names it"),
    ("no-kernel", r"No valid attention backend|No \w+ MoE backend supports"
     r"|not supported (?:in|on) (?:this architecture|CUDA arch|the current GPU)",
     "no kernel of this engine serves this combination of model, cache type and card",
     "change kv_cache_dtype or the backend in the profile"),
    ("no-compiler", r"Could not find nvcc|No such file or directory: '?nvcc|nvcc: not found",
     "a kernel must be compiled and the image has no nvcc", "set VLLM_USE_FLASHINFER_SAMPLER=0, or take an image with the toolkit"),
    ("illegal-access", r"an illegal memory access was encountered|device-side assert triggered",
     "a kernel crashed (illegal memory access)",
     "if it comes again on another host it is a kernel's fault: change backend or cache type"),
    (KILLED, rf"WorkerProc hit an exception|died unexpectedly|was killed by signal|{CORE_GONE}",
     "a worker process died", "look at the lines before; dmesg shows an out-of-memory kill"),
))  # fmt: skip
# What vLLM's outer processes say when an inner one has failed: true, and no cause.
_HOLLOW = re.compile(r"See (?:root cause|stack trace)|EngineDeadError|Engine core initialization failed"
                     r"|initialization failed due to an exception"
                     r"|KeyboardInterrupt|SystemExit|CancelledError|BrokenPipeError|ConnectionResetError|EOFError")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception)): (.{1,300})")


def error_in(message: str) -> Error | None:
    """The error that a log message tells, without the log's own prefix; None for all others."""
    for kind, pattern, cause, cure in _ROWS:
        found = pattern.search(message)
        if found:
            return Error(kind, cause.format(*found.groups()), cure)
    exception = _EXCEPTION.match(message)
    if exception and not _HOLLOW.search(message):
        return Error("other", f"{exception.group(1)}: {exception.group(2).strip()}")
    return None
