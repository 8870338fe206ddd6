"""The stand-in answers for the card that it was told, in every module that asks, and leaves other modules alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

JUDGE = ROOT / "images" / "engine" / "judge"
A40 = {"name": "NVIDIA A40", "capability": "8.6", "bytes": 48 << 30, "count": 2, "nvlink": False}
NVML = "vllm/third_party/pynvml.py"
MODULES = {
    "vllm/__init__.py": "", "vllm/third_party/__init__.py": "", NVML: "def nvmlDeviceGetName(handle): raise OSError\ndef untouched(): return 'as it was'\n",
    "torch/__init__.py": "", "torch/cuda/__init__.py": "def is_available(): return False\n",
    "torch/_ops.py": "class _OpNamespace:\n    def __init__(self, name): self.name = name\n    def __getattr__(self, name): raise AttributeError(name)\n",
}  # fmt: skip


def told(folder: Path, code: str, card: dict[str, Any] | None) -> Any:
    """What a program prints in a Python that sees stand-ins of the engine's modules."""
    for path, text in MODULES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    env = {"PYTHONPATH": f"{JUDGE}:{folder}", "PYTHONDONTWRITEBYTECODE": "1", **({"PODWRIGHT_CARD": json.dumps(card)} if card else {})}
    done = subprocess.run([sys.executable, "-c", f"import json\n{code}"], capture_output=True, text=True, env=env, check=True, timeout=60)
    return json.loads(done.stdout)


def test_the_driver_and_torch_name_the_card(tmp_path: Path) -> None:
    code = "import vllm.third_party.pynvml as n, torch.cuda as t\nprint(json.dumps([n.nvmlDeviceGetName(0), n.nvmlDeviceGetCount(), n.nvmlDeviceGetCudaComputeCapability(1), n.nvmlDeviceGetP2PStatus(0, 1, 2), n.nvmlDeviceGetHandleByIndex(1), n.untouched(), t.is_available(), t.get_device_properties(0).total_memory]))"
    assert told(tmp_path, code, A40) == ["NVIDIA A40", 2, [8, 6], 1, 1, "as it was", True, 48 << 30]


@pytest.mark.parametrize(
    ("capability", "answers"),
    [("8.6", [False, False, False]), ("8.9", [True, False, False]), ("9.0", [True, True, False]), ("12.0", [True, True, True])],
)
def test_kernels_that_ask_about_the_card_are_answered(tmp_path: Path, capability: str, answers: list[bool]) -> None:
    code = "import torch._ops as o\nc = o._OpNamespace('_C')\nprint(json.dumps([c.cutlass_scaled_mm_supports_fp8(0), c.cutlass_scaled_mm_supports_block_fp8(0), c.cutlass_scaled_mm_supports_fp4(0)]))"
    assert told(tmp_path, code, {**A40, "capability": capability}) == answers


def test_an_unknown_kernel_is_kept_only_while_a_model_is_built(tmp_path: Path) -> None:
    code = "import torch._ops as o\nc = o._OpNamespace('_C')\nbefore = hasattr(c, 'odd')\no.is_building = True\nprint(json.dumps([before, hasattr(c, 'odd'), c.odd.default(1)]))"
    assert told(tmp_path, code, A40) == [False, True, None]


def test_without_a_card_nothing_is_changed(tmp_path: Path) -> None:
    assert told(tmp_path, "import torch.cuda as t\nprint(json.dumps(t.is_available()))", None) is False
