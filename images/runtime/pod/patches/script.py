"""Scripts of the owner's that change the installed engine.

Whoever can write to a script's repository could run anything in the pod, so only the one that a person has read, by its
sha256, is ever run, on the releases that it was written for, without any secret in its environment. A copy of the engine's
Python files is kept meanwhile: a script that fails, or leaves a file that Python cannot read, or changes what it did not
announce, is undone.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pod.contract import ScriptPatch
from pod.patches.installed import Backup, Installed
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused

# Bounds a script: it edits some files, which takes well under a second; importing the engine first may take a minute.
SCRIPT_S = 300.0
# A script that patches an engine is some kilobytes; more than this is another kind of file.
MOST_BYTES = 4 << 20
# What a script needs of the environment, and the supervisor's mark, by which strays are found. No secret is among these.
_KEPT = ("PODWRIGHT_CHILD", "PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")

# Brings the file `repo`/`file` to a path; None when it is there, else what failed and whether it may pass.
Fetch = Callable[[str, str, Path], "tuple[str, bool] | None"]


def apply(
    patch: ScriptPatch, installed: Installed, fetch: Fetch, kept: Path, env: Mapping[str, str], python: str = sys.executable
) -> Outcome:
    """Run the script, unless what it leaves is there. `kept` is where verified scripts stay, so that a restart needs no Hub."""
    name = f"{patch.repo}/{patch.file}"
    refusal = _refusal(patch, installed, name)
    if refusal is not None:
        return refusal
    sha256 = patch.sha256 or ""
    left = installed.noted(sha256)
    if left is not None:
        return AlreadyThere(name, f"its changes of {len(left)} files are there")
    for path, expected in patch.expects.items():
        if installed.sha256(path) != expected:
            return Refused(
                name,
                f"{path} is not the file that {patch.file} was written for (engine {installed.release})",
                "compare the script with the installed file: it may hold the repair already; else update `expects` in the model spec",
            )
    script = kept / f"{sha256}.py"
    if not _is(script, sha256):
        problem = fetch(patch.repo, patch.file, script)
        if problem is not None:
            return Refused(
                name,
                f"{name} cannot be fetched: {problem[0]}",
                "look at the repository; a private one needs the secret HF_TOKEN",
                problem[1],
            )
        if not _is(script, sha256):
            script.unlink(missing_ok=True)
            return Refused(name, f"{name} is not the file that was reviewed", "read the new file, then put its sha256 into the model spec")
    try:
        return _run(patch, name, script, installed, env, python)
    except OSError as error:
        return Refused(name, f"{name} cannot be applied: {error.strerror}", "look at the disk and the rights of the engine's environment")


def _refusal(patch: ScriptPatch, installed: Installed, name: str) -> Refused | None:
    if patch.sha256 is None:
        return Refused(
            name,
            f"{name} has no sha256, so it is not run, and the model does not load without it",
            "read the script, add its sha256 to the model spec and publish again",
        )
    if not installed.is_release(patch.releases):
        return Refused(
            name,
            f"{name} is for engine {' and '.join(patch.releases) or 'no release'}, and {installed.release} is installed",
            "use the engine release that the patch is for, or check it on this one and add the release to the model spec",
        )
    return None


def _run(patch: ScriptPatch, name: str, script: Path, installed: Installed, env: Mapping[str, str], python: str) -> Outcome:
    with Backup(installed) as backup:
        failure, said = _executed(script, env, python)
        changed = backup.changed()
        problem = failure or _unwanted(patch, installed, changed)
        if problem:
            backup.restore()
            return Refused(
                name,
                f"{patch.file} {problem}, and was undone{f': {said}' if said else ''}",
                f"it may not fit engine {installed.release}: read the script",
            )
        installed.note(patch.sha256 or "", changed)
    if not changed:
        return AlreadyThere(name, f"changed nothing{f': {said}' if said else ''}")
    return Applied(name, f"changed {', '.join(changed)}{f': {said}' if said else ''}")


def _executed(script: Path, env: Mapping[str, str], python: str) -> tuple[str, str]:
    """What went wrong, empty for nothing, and the last line that the script said."""
    kept = {name: env[name] for name in _KEPT if name in env}
    with tempfile.TemporaryDirectory(prefix="podwright-patch-") as cwd, tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(
            [python, str(script)], env=kept, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = child.wait(SCRIPT_S)
            failure = f"ended with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            failure = f"did not end within {SCRIPT_S:.0f} s"
        finally:
            _end_group(child)
        output.seek(0)
        lines = [line.strip() for line in output.read().splitlines() if line.strip()]
    return failure, lines[-1][:240] if lines else ""


def _end_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _unwanted(patch: ScriptPatch, installed: Installed, changed: Mapping[str, str]) -> str:
    """What is wrong with the files that were changed; empty for nothing."""
    for path in changed:
        if patch.expects and path not in patch.expects:
            return f"changed {path}, which its `expects` do not name"
    for path in patch.expects:
        if path not in changed:
            return f"left {path} as it was"
    for path, digest in changed.items():
        if not digest:
            return f"removed {path}"
        try:
            ast.parse((installed.site / path).read_bytes())
        except (SyntaxError, ValueError) as error:
            return f"left a {path} that Python cannot read ({error.__class__.__name__})"
    return ""


def _is(script: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(script.read_bytes()).hexdigest() == sha256
    except OSError:
        return False
