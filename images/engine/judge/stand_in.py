"""Answers about a GPU that is not here, so that an engine decides as it would beside it.

The card is described by the JSON text in PODWRIGHT_CARD: `name`, `capability` ("8.6"), `bytes` of one, `count`, `nvlink`. Nothing
can be computed on it: only the questions that configuration and model construction ask are answered, in the modules that ask the
driver. A module is changed right after it was loaded, so the engine's files stay as they are.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

# Shared memory that one block may take, in bytes, by compute capability (CUDA C programming guide, table of technical specifications).
SHARED_MEMORY = {"7.5": 65536, "8.0": 166912, "8.6": 101376, "8.9": 101376, "9.0": 232448, "10.0": 232448, "10.3": 232448, "12.0": 101376}
# Multiprocessors differ from card to card and no spec states them; they size scratch buffers, which nobody compares.
MULTIPROCESSORS = 128
# What a fresh CUDA context holds, so that the free memory is a little less than the card's.
CONTEXT_BYTES = 512 << 20
LINKED, NOT_LINKED = 0, 1
CUTLASS_QUESTIONS = {
    "cutlass_scaled_mm_supports_fp8": lambda sm: sm >= 89,
    "cutlass_scaled_mm_supports_block_fp8": lambda sm: sm >= 90,
    "cutlass_scaled_mm_supports_fp4": lambda sm: sm >= 100,
    "cutlass_group_gemm_supported": lambda sm: sm in (90, 100),
    "cutlass_sparse_scaled_mm_supported": lambda sm: sm == 90,
}


class Card:
    """One kind of GPU and how many of them there are."""

    def __init__(self, text: str) -> None:
        facts = json.loads(text)
        self.name: str = facts["name"]
        self.major, self.minor = (int(part) for part in facts["capability"].split("."))
        self.bytes: int = facts["bytes"]
        self.count: int = facts["count"]
        self.nvlink: bool = facts["nvlink"]
        self.shared: int = SHARED_MEMORY.get(facts["capability"], 101376)

    @property
    def sm(self) -> int:
        """Compute capability as one number, 86 for 8.6."""
        return self.major * 10 + self.minor

    def properties(self) -> SimpleNamespace:
        """What torch calls the properties of a device."""
        return SimpleNamespace(
            name=self.name,
            major=self.major,
            minor=self.minor,
            total_memory=self.bytes,
            multi_processor_count=MULTIPROCESSORS,
            warp_size=32,
            max_threads_per_multi_processor=2048 if self.major in (8, 9, 10) and self.minor == 0 else 1536,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=self.shared,
            shared_memory_per_multiprocessor=self.shared + 1024,
            L2_cache_size=50 << 20,
            is_integrated=False,
            gcnArchName="",
            uuid="0",
        )


def about_nvml(module: ModuleType, card: Card) -> None:
    """The driver's management library, as the engine carries it."""
    memory = SimpleNamespace(total=card.bytes, used=0, free=card.bytes)
    replaced(
        module,
        nvmlInit=None,
        nvmlShutdown=None,
        nvmlDeviceGetCount=card.count,
        nvmlDeviceGetHandleByUUID=0,
        nvmlDeviceGetCudaComputeCapability=(card.major, card.minor),
        nvmlDeviceGetName=card.name,
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetP2PStatus=LINKED if card.nvlink else NOT_LINKED,
    )
    setattr(module, "nvmlDeviceGetHandleByIndex", lambda index: index)  # noqa: B010
    setattr(module, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")  # noqa: B010


def about_torch(module: ModuleType, card: Card) -> None:
    """torch.cuda."""
    replaced(
        module,
        is_available=True,
        is_bf16_supported=True,
        device_count=card.count,
        _device_count_nvml=card.count,
        get_device_properties=card.properties(),
        get_device_capability=(card.major, card.minor),
        get_device_name=card.name,
        current_device=0,
        set_device=None,
        mem_get_info=(card.bytes - CONTEXT_BYTES, card.bytes),
    )


def about_operators(module: ModuleType, card: Card) -> None:
    """The compiled operators: those that ask about the card are answered, and a layer that is only built may keep any other."""
    known = module._OpNamespace.__getattr__

    class Uncalled:
        """An operator that a layer keeps and that nobody calls here."""

        def __getattr__(self, name: str) -> Uncalled:
            return self

        def __call__(self, *args: Any, **kwargs: Any) -> None:
            return None

    def operator(self: Any, name: str) -> Any:
        if name in CUTLASS_QUESTIONS:
            return lambda *args: CUTLASS_QUESTIONS[name](card.sm)
        try:
            return known(self, name)
        except AttributeError:
            if "_C" in self.name and getattr(module, "is_building", False):
                return Uncalled()
            raise

    module._OpNamespace.__getattr__ = operator


def about_platform(module: ModuleType, card: Card) -> None:
    """The engine counts devices in a way of its own."""
    replaced(module, _cuda_device_count_stateless=card.count)


def about_triton(module: ModuleType, card: Card) -> None:
    """Triton's driver, which many kernels ask while they are imported."""

    class Driver:
        """Of the stand-in."""

        utils = SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": card.shared,
                "multiprocessor_count": MULTIPROCESSORS,
                "warpSize": 32,
                "max_num_regs": 65536,
            }
        )

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_target(self) -> Any:
            from triton.backends.compiler import GPUTarget

            return GPUTarget("cuda", card.sm, 32)

        def get_current_device(self) -> int:
            return 0

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

    setattr(module, "_create_driver", Driver)  # noqa: B010


ANSWERS = {
    "vllm.third_party.pynvml": about_nvml,
    "torch.cuda": about_torch,
    "torch._ops": about_operators,
    "vllm.platforms.cuda": about_platform,
    "triton.runtime.driver": about_triton,
}


def replaced(module: ModuleType, **values: Any) -> None:
    """Put functions that always give these values in the place of the module's own."""
    for name, value in values.items():
        setattr(module, name, lambda *args, _value=value, **kwargs: _value)


class Answering(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the modules of ANSWERS as Python would, and changes each before anybody sees it."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.waiting = dict(ANSWERS)
        self.own: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec with this loader, the first time that it is asked for."""
        if name not in self.waiting:
            return None
        change = self.waiting.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        self.own[name] = (spec.loader, change)
        spec.loader = self
        return spec

    def create_module(self, spec: Any) -> Any:
        """As the module's own loader does."""
        return self.own[spec.name][0].create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then answer in its place."""
        loader, change = self.own[module.__name__]
        loader.exec_module(module)
        change(module, self.card)


def install(text: str) -> None:
    """Answer for the card described by `text` from here on. Must run before torch and the engine are imported."""
    sys.meta_path.insert(0, Answering(Card(text)))
