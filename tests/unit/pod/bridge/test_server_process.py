"""The bridge as a process: signals, a socket that is handed over, exit codes, a manifest, and the host's command."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pod.contract import Manifest

from tests.support import ROOT
from tests.unit.pod.bridge.net import STREAMED, Client, Engine, Peer, eventually, run
from tests.unit.pod.manifests import example_manifest

pytestmark = pytest.mark.living

ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "images" / "runtime"), "HOME": "/nonexistent"}
MODULE = [sys.executable, "-m", "pod.bridge"]
HAND_OVER = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.argv[2], sys.argv[2:])"


async def started(
    *words: str, environ: dict[str, str] | None = None, fds: tuple[int, ...] = (), program: list[str] | None = None
) -> tuple[asyncio.subprocess.Process, int]:
    """A process and its port, once it listens."""
    process = await asyncio.create_subprocess_exec(
        *(program or MODULE), *words, env={**ENVIRON, **(environ or {})}, pass_fds=fds, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)  # fmt: skip
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if "http://127.0.0.1:" in line:
            return process, int(line.split("http://127.0.0.1:")[1].split(" ")[0])
    raise AssertionError(f"ended with {await process.wait()}")


async def refused(*words: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and stderr of a process that does not start."""
    process = await asyncio.create_subprocess_exec(*MODULE, *words, env={**ENVIRON, **(environ or {})}, stderr=asyncio.subprocess.PIPE)
    _, text = await process.communicate()
    assert process.returncode is not None
    return process.returncode, text.decode()


@contextlib.asynccontextmanager
async def slow_engine() -> AsyncIterator[int]:
    async def slowly(peer: Peer) -> None:
        peer.head()
        peer.chunk({"content": "a"})
        await asyncio.sleep(0.8)
        peer.chunk({}, "stop")
        peer.done()

    engine = Engine(v1__chat__completions=slowly)
    yield await engine.start()
    engine.close()


async def connected(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port))


async def rest(client: Client) -> bytes:
    data = b""
    while piece := await client.piece():
        data += piece
    return data


def test_a_log_on_a_full_disk_takes_no_request_with_it() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, open("/dev/full", "wb") as full:
            async with slow_engine() as engine:
                program = [sys.executable, "-c", HAND_OVER, str(listener.fileno()), *MODULE]
                process = await asyncio.create_subprocess_exec(*program, "--upstream", f"http://127.0.0.1:{engine}", env={**ENVIRON, "LISTEN_FDS": "1"},
                                                               pass_fds=(listener.fileno(),), stdout=full, stderr=full)  # fmt: skip
                for _ in range(3):
                    client = await connected(int(listener.getsockname()[1]))
                    client.send("POST", "/v1/messages", STREAMED)
                    await client.until(b'"a"')
                    assert b"message_stop" in await asyncio.wait_for(rest(client), 20)
                process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), 10)

    run(work())


def test_sigterm_drains() -> None:
    async def work() -> None:
        async with slow_engine() as engine:
            process, port = await started("--listen", "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{engine}")
            client = await connected(port)
            client.send("POST", "/v1/messages", STREAMED)
            await client.until(b'"a"')
            process.send_signal(signal.SIGTERM)
            assert b"message_stop" in await rest(client)
            assert await asyncio.wait_for(process.wait(), 5) == 0
            assert process.stdout is not None
            assert json.loads((await process.stdout.read()).splitlines()[-1])["stop"] == "end_turn"

    run(work())


def test_a_new_process_takes_over_the_socket() -> None:
    async def work() -> None:
        async with slow_engine() as engine:
            door = socket.create_server(("127.0.0.1", 0))
            os.set_inheritable(door.fileno(), True)
            parent = [sys.executable, "-c", HAND_OVER, str(door.fileno()), *MODULE]
            words = ("--listen", "127.0.0.1:1", "--upstream", f"http://127.0.0.1:{engine}")
            environ = {"LISTEN_FDS": "1"}
            old, port = await started(*words, environ=environ, fds=(door.fileno(),), program=parent)
            assert port == door.getsockname()[1]
            client = await connected(port)
            client.send("POST", "/v1/messages", STREAMED)
            await client.until(b'"a"')
            new, _ = await started(*words, environ=environ, fds=(door.fileno(),), program=parent)
            old.send_signal(signal.SIGTERM)
            for _ in range(30):  # the whole time of the hand-over
                other = await connected(port)
                other.send("GET", "/health")
                assert (await other.get()).status == 200
                other.close()
                await asyncio.sleep(0.01)
            assert b"message_stop" in await rest(client)
            assert await asyncio.wait_for(old.wait(), 5) == 0
            new.terminate()
            assert await asyncio.wait_for(new.wait(), 5) == 0
            door.close()

    run(work())


def manifest_with(**bridge: Any) -> bytes:
    manifest = example_manifest()
    changed = dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, host="127.0.0.1", **bridge))
    assert Manifest.from_bytes(changed.canonical_bytes()) == changed
    return changed.canonical_bytes()


def test_a_manifest_is_read_again_at_sighup(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "manifest.json"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        file.write_bytes(manifest_with(port=port, mode="translate", api_key_env="KEY"))
        process, _ = await started("--manifest", str(file), environ={"KEY": "one"})
        assert process.stderr is not None
        client = await connected(port)

        async def mode() -> str:
            client.send("GET", "/console/data", None, {"x-api-key": "one"})
            return str((await client.get()).json["mode"])

        assert await mode() == "translate"
        file.write_bytes(manifest_with(port=port, mode="native", api_key_env="KEY"))
        process.send_signal(signal.SIGHUP)
        assert b"new settings" in await process.stderr.readline()
        assert await mode() == "native"
        file.write_bytes(b"{}")
        process.send_signal(signal.SIGHUP)
        assert b"the old settings stay" in await process.stderr.readline()
        assert await mode() == "native"
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 5) == 0

    run(work())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--listen", "nowhere", "--upstream", "http://x"], 64, "no HOST:PORT"),
        (["--upstream", "ftp://x"], 64, "no http or https address"),
        (["--upstream", "http://x", "--api-key-env", "NOT_SET"], 64, "NOT_SET is empty or not set"),
        (["--manifest", "/nonexistent/manifest.json"], 66, "/nonexistent/manifest.json"),
        (["--manifest", "/dev/null"], 65, "manifest"),
        ([], 2, "--upstream"),
    ],
)
def test_what_cannot_start_says_why(words: list[str], code: int, says: str) -> None:
    async def work() -> None:
        ended, text = await refused(*words)
        assert ended == code and says in text and "Traceback" not in text

    run(work())


def test_an_address_that_is_taken() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ended, text = await refused("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--upstream", "http://127.0.0.1:9")
        assert ended == 69 and "cannot listen" in text and "Traceback" not in text

    run(work())


def test_without_a_key_only_this_machine_may_connect() -> None:
    async def work() -> None:
        process, _ = await started("--listen", "0.0.0.0:0", "--upstream", "http://127.0.0.1:9")  # bound to 127.0.0.1, or `started` fails
        process.terminate()
        assert await process.wait() == 0

    run(work())


def test_the_hosts_command() -> None:
    async def work() -> None:
        async with slow_engine() as engine:
            program = [sys.executable, "-m", "compiler"]
            process, port = await started(
                "bridge",
                "--listen",
                "127.0.0.1:0",
                "--upstream",
                f"http://127.0.0.1:{engine}",
                "--mode",
                "keepalive",
                program=program,
                environ={"PYTHONPATH": f"{ROOT}:{ROOT}/images/runtime"},
            )
            client = await connected(port)
            client.send("GET", "/console/data")
            assert (await client.get()).json["mode"] == "keepalive"
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 5) == 0

    run(work())


def test_a_manifest_that_changes_is_read_again(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "manifest.json"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        file.write_bytes(manifest_with(port=port, mode="translate", api_key_env="KEY"))
        process, _ = await started("--manifest", str(file), environ={"KEY": "one"})
        assert process.stderr is not None
        beside = tmp_path / "new"
        beside.write_bytes(manifest_with(port=port, mode="keepalive", api_key_env="KEY"))
        beside.replace(file)
        assert b"new settings" in await asyncio.wait_for(process.stderr.readline(), 5)
        client = await connected(port)
        client.send("GET", "/console/data", None, {"x-api-key": "one"})
        assert (await client.get()).json["mode"] == "keepalive"
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 5) == 0

    run(work())


def test_the_state_of_the_engine_comes_from_the_file_of_the_supervisor(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "engine.json"
        file.write_text('{"version": 1, "state": "booting", "model": "p", "hold": false, "retry_after_s": 20, "detail": "downloading"}')
        words = ("--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9")
        process, port = await started(*words, environ={"PODWRIGHT_ENGINE_STATE": str(file)})
        client = await connected(port)
        client.send("POST", "/v1/messages", STREAMED)
        got = await client.get()
        assert got.status == 529 and got.headers["retry-after"] == "20" and "downloading" in got.json["error"]["message"]
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 5) == 0

    run(work())


def test_a_replaced_process_drains_without_haste() -> None:
    async def work() -> None:
        async with slow_engine() as engine:
            process, port = await started("--listen", "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{engine}")
            client = await connected(port)
            client.send("POST", "/v1/messages", STREAMED)
            await client.until(b'"a"')
            process.send_signal(signal.SIGQUIT)
            await asyncio.sleep(0.1)
            process.send_signal(signal.SIGTERM)  # from now 25 s are left, and the answer takes less
            assert b"message_stop" in await rest(client)
            assert await asyncio.wait_for(process.wait(), 5) == 0

    run(work())


def test_a_large_body_is_held_a_few_times_and_not_dozens() -> None:
    """mh-19: the peak of the process, from the kernel."""

    def memory(pid: int, field: str) -> int:
        return next(int(line.split()[1]) << 10 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(field))

    async def work() -> None:
        engine = Engine(v1__chat__completions=lambda peer: peer.whole(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}))
        process, port = await started("--listen", "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{await engine.start()}")
        shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * (40 << 20)}}
        body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [shot]}]}).encode()
        before = memory(process.pid, "VmRSS")
        client = await connected(port)
        client.send("POST", "/v1/messages", body)
        assert (await client.get()).status == 200
        assert memory(process.pid, "VmHWM") - before < 3.5 * len(body)
        await eventually(lambda: memory(process.pid, "VmRSS") - before < len(body) / 2)
        process.terminate()
        assert await process.wait() == 0
        engine.close()

    run(work())
