"""What was decided: frozen dataclasses that renderers, targets and rules read. `to_json` and `from_json` are inverse."""

from compiler.plan.codec import from_json, to_json
from compiler.plan.core import Plan

__all__ = ["Plan", "from_json", "to_json"]
