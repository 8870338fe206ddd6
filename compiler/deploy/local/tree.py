"""The folder that is `/` to the bootstrap: what the image would hold, from the same bundle, made anew for each run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local.places import Places
from compiler.plan import Plan

# Bounds the making of a model without weights, and the search for the engine; each takes a few seconds on a busy machine.
STEP_S = 300.0
_CONTEXT_PARTS = ("runtime", "bootstrap", "common", "finish", "vllm-cpu")


def lay_out(plan: Plan, places: Places, python: Path) -> None:
    """Fill `places.root` from the bundle, and put what the run before left aside. Raises LocalRunFailed or OSError."""
    shutil.rmtree(places.root, ignore_errors=True)
    _put_aside(places.state)
    home = places.root / "opt" / "podwright"
    home.mkdir(parents=True)
    (places.root / "root").mkdir()
    for name in ("bootstrap.sh", "manifest.json"):
        shutil.copy2(places.bundle / name, home / name)
    for part in _CONTEXT_PARTS:
        if (places.bundle / "image" / part).is_dir():
            shutil.copytree(places.bundle / "image" / part, home / part)
    _step("the engine was not found", [str(home / "common" / "find-engine.sh"), plan.image.distribution, str(python)])
    if plan.model.generated:
        # The model's place in the pod is the bootstrap's own folder, so it has the same place here.
        target = places.root / plan.model.repo.lstrip("/")
        _step("the model could not be made", [str(python), str(home / "vllm-cpu" / "make_model.py"), str(target)])
    marker = f"recipe={plan.image.recipe} engine={plan.image.distribution}=={plan.image.release} python={python} local=yes\n"
    (places.root / "opt" / ".image_prebaked").write_text(marker, "utf-8")


def _put_aside(state: Path) -> None:
    """A run begins with nothing remembered; what the one before wrote stays readable until the next."""
    before = state.with_name(f"{state.name}.before")
    if state.exists():
        shutil.rmtree(before, ignore_errors=True)
        state.rename(before)


def _step(failure: str, argv: list[str]) -> None:
    run = subprocess.run(argv, capture_output=True, text=True, timeout=STEP_S, check=False)
    if run.returncode != 0:
        raise LocalRunFailed(failure, (run.stderr or run.stdout).strip()[-2000:], "Remove the folder of engines in podwright's cache, and start again.")
