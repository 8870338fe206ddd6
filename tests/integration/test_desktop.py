"""The remote desktop for real: Xvfb, XFCE, x11vnc and noVNC beside a running runtime, looked at with a browser.

`.ci/real_desktop.sh` installs them. The engine is the toy one: the desktop's business is to leave it alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod import desktop, processes
from pod.contract import Desktop, Manifest

from tests.integration.browser import CHROMIUM, browser
from tests.unit.pod.living import Pod, free_port, living, toy_manifest

_MISSING = [*desktop.missing(os.environ.get("PATH")), *([] if CHROMIUM else ["chromium"])]
pytestmark = [pytest.mark.desktop, pytest.mark.skipif(bool(_MISSING), reason=f"SKIPPED: {', '.join(_MISSING)} missing; run .ci/real_desktop.sh")]
PASSWORD = "s3cret12"
# Bounds the start of XFCE on a machine that others use, too.
UP_S = 90.0
CONNECTED = "document.documentElement.classList.contains('noVNC_connected')"
# A screen on which XFCE has drawn shows many colours; one of a server without a desktop shows one.
PAINTED = """(() => { const c = document.querySelector('#noVNC_container canvas'); if (!c || !c.width) return false;
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let i = 0; i < d.length; i += 404) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]); return seen.size > 20; })()"""


def manifest_with_desktop(port: int) -> Manifest:
    manifest = toy_manifest(port=free_port(), endpoint=free_port())
    return dataclasses.replace(manifest, pod=dataclasses.replace(manifest.pod, desktop=Desktop(port, "VNC_PASSWORD")))


def journal(pod: Pod) -> list[str]:
    """What the journal says of the desktop and of service, in order."""
    lines = [json.loads(line) for line in (pod.folder / "state/journal/journal.jsonl").read_text("utf-8").splitlines()]
    return [f"{line['kind']}: {line['message']}" for line in lines if line["kind"] in ("desktop", "serving")]


def desktop_pid(pod: Pod) -> int | None:
    return next((int(c["pid"]) for c in pod.status().get("children", []) if c["role"] == "desktop"), None)


def serves_page(port: int, seconds: float = UP_S) -> bool:
    """Whether noVNC's first page is there in time."""
    import http.client

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            if answer.status == 200 and b"vnc.html" in answer.read():
                return True
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)
        finally:
            connection.close()
    return False


@dataclasses.dataclass(frozen=True)
class Shown:
    """A runtime with a desktop, and the port of the latter."""

    pod: Pod
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_connected(self, password: str = PASSWORD) -> bool:
        """Whether a browser gets a painted desktop with this password."""
        with browser() as page:
            page.open(f"{self.url}/vnc.html?autoconnect=true&password={password}")
            return page.until(CONNECTED) and page.until(PAINTED)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    port = free_port()
    with living(tmp_path_factory.mktemp("desktop"), manifest_with_desktop(port), {"VNC_PASSWORD": PASSWORD, "PODWRIGHT_LISTEN": "127.0.0.1"}) as pod:
        pod.serves()
        assert serves_page(port), (pod.folder / "state/logs/desktop.log").read_text("utf-8")
        yield Shown(pod, port)


def test_it_comes_after_the_engine(shown: Shown) -> None:
    said = journal(shown.pod)
    assert said[0].startswith("serving:") and said[1].startswith(f"desktop: the remote desktop is on port {shown.port}"), said
    pid = desktop_pid(shown.pod)
    assert pid is not None and os.getpriority(os.PRIO_PROCESS, pid) == desktop.NICENESS


def test_a_browser_sees_a_painted_desktop(shown: Shown) -> None:
    with browser() as page:
        page.open(f"{shown.url}/vnc.html?autoconnect=true&password={PASSWORD}")
        assert page.until(CONNECTED), page.value("document.body.innerText")
        assert page.value("document.querySelector('#noVNC_container canvas').width") == 1600
        assert page.until(PAINTED, UP_S), "the screen stays empty"


def test_the_first_page_leads_to_the_desktop_and_asks_for_the_password(shown: Shown) -> None:
    with browser() as page:
        page.open(shown.url + "/")
        assert page.until("location.pathname === '/vnc.html' && !!document.querySelector('#noVNC_credentials_dlg.noVNC_open')")
        assert page.value(CONNECTED) is False


def test_another_password_is_refused(shown: Shown) -> None:
    with browser() as page:
        page.open(f"{shown.url}/vnc.html?autoconnect=true&password=not-this")
        assert page.until("/authentication|password/i.test(document.querySelector('#noVNC_status').innerText)")
        assert page.value(CONNECTED) is False


def test_only_novnc_listens_and_nobody_sees_the_password(shown: Shown) -> None:
    family = processes.marked_with({f"desktop:{shown.pod.nonce}"})
    listeners = [(host, port) for host, port, pid in _listeners(family)]
    assert listeners and {host for host, _ in listeners} == {"127.0.0.1"}, listeners
    for pid in family - {desktop_pid(shown.pod)}:
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert PASSWORD.encode() not in text and b"k3y-for-tests" not in text, Path(f"/proc/{pid}/cmdline").read_bytes()


def _listeners(pids: set[int]) -> Iterator[tuple[str, int, int]]:
    """Who listens on TCP, and where: address, port, process."""
    import socket

    inodes: dict[str, int] = {}
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes[str(entry.readlink())] = pid
            except OSError:
                continue
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                raw = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
                yield socket.inet_ntop(family, raw), int(port, 16), inodes[f"socket:[{fields[9]}]"]


@pytest.mark.parametrize("victim", ["Xvfb", "x11vnc", "websockify", "pod.desktop"])
def test_whatever_is_killed_comes_back(shown: Shown, victim: str) -> None:
    before = shown.pod.status()
    pid = next(p for p in processes.marked_with({f"desktop:{shown.pod.nonce}"}) if victim.encode() in Path(f"/proc/{p}/cmdline").read_bytes())
    os.kill(pid, signal.SIGKILL)
    shown.pod.until(lambda s: pid not in processes.marked_with({f"desktop:{shown.pod.nonce}"}) and desktop_pid(shown.pod) not in (None, pid), "a desktop again")
    time.sleep(1.0)  # whoever was killed is missed by now
    assert serves_page(shown.port) and shown.is_connected(), (shown.pod.folder / "state/logs/desktop.log").read_text("utf-8")[-3000:]
    after = shown.pod.status()
    assert (after["state"], after["engine_pid"], after["bridge_pid"]) == ("serving", before["engine_pid"], before["bridge_pid"])
    assert after["restarts"] == before["restarts"] and shown.pod.complete()[0] == 200


def test_a_supervisor_that_dies_leaves_the_desktop_and_the_next_one_takes_it_over(shown: Shown) -> None:
    before, supervisor = desktop_pid(shown.pod), shown.pod.supervisor()
    assert before is not None
    os.kill(supervisor, signal.SIGKILL)
    shown.pod.until(lambda s: s["children"] and shown.pod.supervisor() != supervisor, "supervised again")
    assert shown.is_connected() and desktop_pid(shown.pod) == before


def test_the_end_leaves_nothing_of_it(shown: Shown) -> None:
    began = time.monotonic()
    assert shown.pod.end() == 0 and time.monotonic() - began < 30
    assert not shown.pod.left() and not (shown.pod.folder / "state/desktop").exists()


@pytest.mark.parametrize("given", [{}, {"VNC_PASSWORD": " "}, {"VNC_PASSWORD": "{{ RUNPOD_SECRET_vnc }}"}])
def test_without_a_password_there_is_none_and_the_journal_says_so(tmp_path: Path, given: dict[str, str]) -> None:
    port = free_port()
    with living(tmp_path, manifest_with_desktop(port), given) as pod:
        pod.serves()
        deadline = time.monotonic() + 20
        while not any(line.startswith("desktop:") for line in journal(pod)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert journal(pod)[-1].startswith("desktop: no remote desktop: the secret VNC_PASSWORD is empty")
        assert desktop_pid(pod) is None and not serves_page(port, 1.0)
        assert pod.complete()[0] == 200
