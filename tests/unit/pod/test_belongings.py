"""What a killed process leaves in /dev/shm and in the temporary folder is known by who used it, and removed once nobody does."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.belongings import belongings, remove

LEAKS = """
import mmap, os, socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
file = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
held = mmap.mmap(file, 4096)
os.close(file)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def leaky() -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    with tempfile.TemporaryDirectory() as short:
        sock, segment = Path(short, "s"), Path(f"/dev/shm/podwright-test-{Path(short).name}")
        process = subprocess.Popen([sys.executable, "-c", LEAKS, str(sock), str(segment)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process, sock, segment
        process.kill()
        process.wait()
        segment.unlink(missing_ok=True)


def test_what_a_killed_process_leaves_is_removed(leaky: tuple[subprocess.Popen[bytes], Path, Path]) -> None:
    process, sock, segment = leaky
    found = belongings([process.pid])
    assert {str(sock), str(segment)} <= found
    process.kill()
    process.wait()
    assert set(remove(found)) == {str(sock), str(segment)}
    assert not sock.exists() and not segment.exists() and remove(found) == []


def test_what_somebody_still_uses_stays(leaky: tuple[subprocess.Popen[bytes], Path, Path]) -> None:
    process, sock, segment = leaky
    assert remove(belongings([process.pid])) == []
    assert sock.exists() and segment.exists()


def test_nothing_else_is_ever_removed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "link").symlink_to(file)
    assert remove([str(file), str(tmp_path / "link"), str(tmp_path), str(tmp_path / "none")]) == []
    assert file.exists() and belongings([0, 1 << 30]) == set()


def test_a_socket_without_a_path_is_nobodys_file() -> None:
    left, right = socket.socketpair()
    assert not any(path.startswith("@") for path in belongings([0]))
    left.close()
    right.close()
