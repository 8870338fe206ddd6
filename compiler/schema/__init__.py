"""What people may write: one strict pydantic model for each kind of spec."""

from compiler.schema.base import Choice, EngineSettings, Spec
from compiler.schema.engine import EngineSpec
from compiler.schema.evidence import EvidenceSpec, Measurement
from compiler.schema.hardware import HardwareSpec
from compiler.schema.model import ModelSpec
from compiler.schema.profile import ProfileSpec

KINDS: dict[str, type[Spec]] = {"model": ModelSpec, "hardware": HardwareSpec, "engine": EngineSpec, "profile": ProfileSpec, "evidence": EvidenceSpec}
FOLDERS: dict[str, str] = {"model": "models", "hardware": "hardware", "engine": "engines", "profile": "profiles", "evidence": "evidence"}

__all__ = ["FOLDERS", "KINDS", "Choice", "EngineSettings", "EngineSpec", "EvidenceSpec", "HardwareSpec", "Measurement", "ModelSpec", "ProfileSpec", "Spec"]
