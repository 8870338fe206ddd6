"""The guard: what it holds back, and what it lets through, which is nearly everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.bridge import guard
from pod.bridge.turn import Turn

from tests.unit.pod.bridge.chunks import DONE, call, calling, chunk, reason, run

DESTRUCTIVE = [
    "rm -rf /", "rm -rf /*", "sudo rm -r -f /", "rm --recursive --force /", "cd /tmp && rm -rf ~", "rm -fr $HOME", 'rm -rf "$HOME"/', "rm -rf ${HOME}/*",
    "rm -rf /home", "rm -Rf /usr/", "rm -rf /etc/*", "rm -rf /home/anna", "/bin/rm -rf / --no-preserve-root", "true; rm -rf /", "ls | xargs echo\nrm -rf /",
    "FOO=1 rm -rf /var", "bash -c 'rm -rf /'", "sh -c \"cd / && rm -rf /*\"", "rm \\\n  -rf /", "if true; then rm -rf /; fi",
    "mkfs.ext4 /dev/sda1", "sudo mkfs -t xfs /dev/nvme0n1", "dd if=/dev/zero of=/dev/sda bs=1M", "cat x > /dev/sda", "wipefs -a /dev/vda", "shred /dev/sdb",
    ":(){ :|:& };:", "bomb() { bomb | bomb & }; bomb", "chmod -R 777 /", "chown -R me /etc", "find / -delete", "find /usr -name x -exec rm {} +",
    "rd /s /q C:\\", "del /f /s /q C:\\*", "Remove-Item -Recurse -Force C:\\", "Remove-Item $HOME -Recurse", "format C: /y", "cmd /c rd /s /q C:\\Windows",
]  # fmt: skip
HARMLESS = [
    "rm -rf build", "rm -rf ./node_modules dist/*", "rm -rf /tmp/x", "rm -rf /srv/project/build", "rm -rf ~/.cache/pip", "rm -rf $HOME/project/tmp",
    "rm file /", "rm -f /etc/hosts.bak", "ls -R /", "grep -r rm /etc", "echo 'rm -rf /'", "echo rm -rf / # never", "git rm -r /dev/null", "find / -name x",
    "find . -delete", "chmod -R u+w .", "chmod 644 /etc/hosts", "dd if=/dev/sda of=disk.img", "dd if=a of=/tmp/b", "cat /dev/null > x", "echo > /dev/null",
    "mkfs.ext4 disk.img", "rd /s /q build", "del x.txt", "Remove-Item -Recurse .\\build", "python -c \"print('rm -rf /')\"", "f() { echo | cat & }; f",
    "git commit -m 'remove / from paths'", "rsync -r / backup", "rm -rf '/tmp/ with space'", "docker run --rm -v /:/host x", "unbalanced 'quote rm",
    "Get-ChildItem -Recurse C:\\", "format x", "", "   ", "&&",
]  # fmt: skip


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_what_destroys_is_held_back(command: str) -> None:
    why = guard.refusal("Bash", {"command": command, "description": "tidy up"})
    assert why is not None and why.startswith("The call of Bash was held back: ")


@pytest.mark.parametrize("command", HARMLESS)
def test_what_does_not_goes_through(command: str) -> None:
    assert guard.refusal("Bash", {"command": command}) is None


@pytest.mark.parametrize(("name", "arguments", "is_refused"), [
    ("bash", {"command": "rm -rf /"}, True), ("mcp__box__run_command", {"cmd": "rm -rf /"}, True), ("shell", {"command": ["rm", "-rf", "/"]}, True),
    ("PowerShell", {"script": "Remove-Item -Recurse C:\\"}, True), ("Write", {"content": "rm -rf /"}, False), ("Grep", {"command": "rm -rf /"}, False),
    ("bash", {"restart": True}, False), ("bash", {"command": None}, False), ("bash", {"description": "rm -rf /"}, False),
])  # fmt: skip
def test_only_shells_are_looked_at(name: str, arguments: dict[str, Any], is_refused: bool) -> None:
    assert (guard.refusal(name, arguments) is not None) is is_refused


def test_a_command_that_is_held_back_becomes_a_text() -> None:
    parts = (calling(call(0, "a", "Bash", '{"command":"rm -rf /"}')), chunk({}, "tool_calls"), DONE)
    blocks, ending, stream = run(*parts, turn=Turn("m", guard=True))
    assert (len(blocks), blocks[0][0], reason(ending)) == (1, "text", "end_turn") and "rm would work on all of /" in blocks[0][1]
    assert "the guard held back a call of Bash" in stream.notes
    assert run(*parts)[0] == [["tool_use", "Bash", {"command": "rm -rf /"}]]  # off unless asked for


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    found = guard.refusal("Bash", {"command": text})
    assert found is None or found.startswith("The call of Bash")
