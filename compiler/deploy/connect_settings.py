"""What in Claude Code's own settings, and in the environment, beats the variables that `podwright connect` sets. Reads, never changes.

A settings file's `env` replaces what the shell gave; managed settings beat all others. Sources: Claude Code's settings, seen at 2.1.332.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from compiler.deploy.answers import mapping, text

# Each of them sends requests to another provider, whatever the base address says.
ELSEWHERE = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
# Keys beside `env` that decide about address, key or model.
_DECIDING = {"apiKeyHelper": "its program's key is sent in place of the endpoint's", "forceLoginMethod": "it asks for a login that the endpoint does not have"}
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "win32": r"C:\Program Files\ClaudeCode\managed-settings.json",
}  # fmt: skip
_MANAGED_ELSEWHERE = "/etc/claude-code/managed-settings.json"


def settings_files(environment: Mapping[str, str], folder: Path) -> list[tuple[str, Path]]:
    """Every settings file that Claude Code would read in `folder`, with its kind, the strongest first."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    own = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    root = _project(folder)
    return [
        ("managed", Path(_MANAGED.get(sys.platform, _MANAGED_ELSEWHERE))), ("local", root / ".claude" / "settings.local.json"),
        ("project", root / ".claude" / "settings.json"), ("user", own / "settings.json"),
    ]  # fmt: skip


def overriding(wanted: Mapping[str, str], unset: Iterable[str], files: Iterable[tuple[str, Path]]) -> list[str]:
    """One sentence for each setting that would win over `wanted`, or bring back what is unset. No value that may be a key is in it."""
    found = []
    for kind, path in files:
        held, problem = _read(path)
        if problem:
            found.append(f"the {kind} settings {path} cannot be read ({problem}); whether they override is not known")
        variables = mapping(held.get("env"))
        for name in (*wanted, *(n for n in unset if n not in wanted)):
            value = text(variables.get(name))
            if value is not None and value != wanted.get(name):
                shown = f"to {value!r}" if name in wanted and "TOKEN" not in name and "KEY" not in name else "to something else"
                found.append(f"the {kind} settings {path} set {name} {shown}, which wins over this shell; take it out of `env` there")
        found += [f"the {kind} settings {path} have {key}: {why}" for key, why in _DECIDING.items() if held.get(key)]
    return found


def elsewhere(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables of the environment that send requests to another provider."""
    return tuple(name for name in ELSEWHERE if environment.get(name))


def _project(folder: Path) -> Path:
    """The folder whose `.claude` counts: the nearest one upwards that has it, below the home folder's own."""
    home = Path.home()
    for candidate in (folder, *folder.parents):
        if candidate != home and (candidate / ".claude").is_dir():
            return candidate
    return folder


def _read(path: Path) -> tuple[Mapping[str, object], str]:
    try:
        return mapping(json.loads(path.read_text("utf-8"))), ""
    except FileNotFoundError:
        return {}, ""
    except (OSError, UnicodeDecodeError) as error:
        return {}, getattr(error, "strerror", None) or "it is not UTF-8"
    except (ValueError, RecursionError):
        return {}, "it is not JSON"
