"""The guard's other half: shell commands that destroy what no edit brings back.

Only what can hardly be meant is held back: the whole file system, a system folder or somebody's home removed, a file system made
or raw bytes written on a disk, a fork bomb. Deleting files of a project is an agent's daily work, and goes through. This is
no sandbox: whoever wants to get around it can.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

SHELLS = frozenset({
    "bash", "cmd", "exec", "execute_command", "local_shell", "powershell", "run_command", "run_shell_command", "run_terminal_cmd", "shell",
    "terminal", "zsh",
})  # fmt: skip
_INNER_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "cmd", "powershell", "pwsh"})
_DISK_MAKERS = frozenset({"wipefs", "shred", "mkswap", "blkdiscard"})
_BEFORE = frozenset({"sudo", "doas", "command", "exec", "nohup", "time", "env", "busybox", "nice", "then", "do", "else", "{", "(", "!"})
_ROOTS = ("bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin", "srv", "sys", "usr", "var", "users",
          "applications", "system", "library", "windows")  # fmt: skip
_PRECIOUS = re.compile(
    rf"""(?: /+ (?:(?:{"|".join(_ROOTS)})/*)?          # the root, or a folder of the system's
           | (?:~|\$HOME|\$\{{HOME\}}|%userprofile%|\$env:userprofile) [/\\]*   # a home
           | /(?:home|users)/[^/*]+/*                    # somebody's home
           | [a-z]: [/\\]* (?:(?:windows|users)[/\\]*)?  # a drive
         ) (?:\*|\.)*""",
    re.IGNORECASE | re.VERBOSE,
)
_DISK = re.compile(r"(?:/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper/|md|dm-)\w*|\\\\\.\\PhysicalDrive\d+)", re.IGNORECASE)
_FORK_BOMB = re.compile(r"(\S{1,30})\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}\s*;\s*\1")
_ONTO_DISK = re.compile(rf">\s*{_DISK.pattern}", re.IGNORECASE)
_WINDOWS_SWITCH = re.compile(r"/[a-z]", re.IGNORECASE)


# A script that is longer is mostly a file that it writes; reading it all would hold up other streams.
MAX_LOOKED_AT = 20_000


def destroys(name: str, arguments: dict[str, Any]) -> str | None:
    """What a call of a shell would destroy, in words; None for everything else."""
    if name.rpartition("__")[2].casefold() not in SHELLS:
        return None
    texts = [arguments.get(key) for key in ("command", "cmd", "commands", "script", "code")]
    texts = [" ".join(map(str, text)) if isinstance(text, list) else text for text in texts]
    return next((found for text in texts if isinstance(text, str) and (found := _destroyed_by(text[:MAX_LOOKED_AT]))), None)


def _destroyed_by(text: str) -> str | None:
    if _FORK_BOMB.search(text):
        return "it starts itself without end"
    if _ONTO_DISK.search(text):
        return "it writes onto a disk itself"
    return next((found for words in _commands(text) if (found := _of_one(words))), None)


def _commands(text: str) -> list[list[str]]:
    """The simple commands of a script, as words. What no shell could read is parted at its spaces."""
    found: list[list[str]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
            lexer.whitespace_split, lexer.commenters = True, "#"
            lexer.escape = ""  # a backslash parts the folders of Windows, and hides nothing
            words = list(lexer)
        except ValueError:
            words = line.split()
        for word in [*words, ";"]:
            if set(word) <= set(";&|"):
                found.append([])
            else:
                found[-1].append(word)
    return [words for words in found if words]


def _of_one(words: list[str]) -> str | None:
    while words and (words[0].casefold() in _BEFORE or re.fullmatch(r"\w+=.*|-.*", words[0])):
        words = words[1:]
    if not words:
        return None
    program = re.split(r"[/\\]", words[0])[-1].casefold().removesuffix(".exe")
    rest = words[1:]
    if program in _INNER_SHELLS and len(rest) > 1 and rest[0].casefold() in ("-c", "-lc", "/c", "-command"):
        return _destroyed_by(" ".join(rest[1:]))
    options = {word.casefold() for word in rest if word.startswith("-") or _WINDOWS_SWITCH.fullmatch(word)}
    targets = [word for word in rest if word.casefold() not in options]
    precious = next((word for word in targets if _PRECIOUS.fullmatch(word)), None)
    if precious is not None and _is_recursive(program, options, rest):
        return f"{program} would work on all of {precious}"
    on_disk = next((word for word in rest if _DISK.fullmatch(word.removeprefix("of="))), None)
    is_written = program in _DISK_MAKERS or program.startswith("mkfs") or (program == "dd" and (on_disk or "").startswith("of="))
    if on_disk and is_written:
        return f"{program} would overwrite the disk {on_disk.removeprefix('of=')}"
    if program == "format" and any(re.fullmatch(r"[a-z]:", word, re.IGNORECASE) for word in rest):
        return "format would erase a drive"
    return None


def _is_recursive(program: str, options: set[str], rest: list[str]) -> bool:
    letters = "".join(option.lstrip("-") for option in options if re.fullmatch(r"-\w+", option))
    if program in ("rm", "chmod", "chown", "chgrp"):
        return "r" in letters or "--recursive" in options
    if program == "find":
        return "-delete" in options or ("-exec" in options and "rm" in rest)
    if program in ("rmdir", "rd", "del", "erase"):
        return "/s" in options
    return program in ("remove-item", "ri") and any(option.startswith("-r") for option in options)
