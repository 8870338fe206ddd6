"""Plan -> `plan.json`: everything that was decided, for programs. `compiler.plan.from_json` reads it back."""

from __future__ import annotations

import json

from compiler.artifact import Artifact
from compiler.plan import Plan, to_json

PATH = "plan.json"


def render_plan_json(plan: Plan) -> Artifact:
    """`plan.json`, indented. Its `memory` object has the fields of `compiler.plan.memory.MemoryPlan`, unrounded."""
    return Artifact(PATH, f"{json.dumps(to_json(plan), indent=2, ensure_ascii=False, allow_nan=False)}\n".encode())
