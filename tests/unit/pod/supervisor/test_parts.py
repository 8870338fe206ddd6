"""The parts around `decide`: what is kept, shown, unpacked, asked over HTTP, and how the spend is ended."""

from __future__ import annotations

import asyncio
import bz2
import dataclasses
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pod import folders, processes
from pod.contract import Swap
from pod.publication import Taken
from pod.supervisor import http, logs
from pod.supervisor.children import Child
from pod.supervisor.following import unpack_runtime
from pod.supervisor.memory import keep_manifest, restored, saved, taken_of, target_of
from pod.supervisor.reading import Reader
from pod.supervisor.spend import Held, RunPod, spend_of
from pod.supervisor.state import Restart, State, SwapFailure
from pod.supervisor.steps import Steps
from pod.supervisor.views import Clock, engine_document, lines, status_document, swap_answer
from pod.supervisor.workers import Workers

from tests.unit.pod.manifests import example_manifest
from tests.unit.pod.supervisor.history import History, other_argv, swap_set, target

CLOCK = Clock(1000.0, 1_800_000_000.0)


# --- what is kept


def test_what_is_in_force_survives_with_its_history(tmp_path: Path) -> None:
    folder = folders.state_folder({folders.STATE_ENV: str(tmp_path)})
    manifests = [example_manifest(), other_argv("--x")]
    for manifest in manifests:
        keep_manifest(folder, manifest)
    new = target_of(manifests[1], {}, sequence=4)
    state = State(target=new, since=5.0, good=new, good_before=target_of(manifests[0], {}), sequence=4, quarantined=(("f" * 64, "why"),),
                  restarts=(Restart(900.0, "crash", False),), serving=True)  # fmt: skip
    folders.write_json(folder.memory_file, saved(state, "given", Taken(4, "a")))
    data = folders.read_json(folder.memory_file)
    found = restored(folder, data, "given", {}, 1000.0)
    assert found is not None and (found.target, found.good, found.good_before) == (state.target, state.good, state.good_before)
    assert found.quarantined == state.quarantined and found.restarts == state.restarts and not found.serving
    assert taken_of(data) == Taken(4, "a") and taken_of({}) == Taken(0, "")


def test_another_given_manifest_starts_afresh(tmp_path: Path) -> None:
    folder = folders.state_folder({folders.STATE_ENV: str(tmp_path)})
    keep_manifest(folder, example_manifest())
    data = saved(State(target=target(), since=0.0), "given", Taken(0, ""))
    assert restored(folder, data, "another", {}, 0.0) is None
    assert restored(folder, data, "given", {}, 0.0) is not None
    assert restored(folder, {**data, "version": 99}, "given", {}, 0.0) is None
    assert restored(folder, {**data, "quarantined": 3}, "given", {}, 0.0) is None
    folder.manifest(example_manifest().sha256()).write_text("{")
    assert restored(folder, data, "given", {}, 0.0) is None


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    folders.write_json(tmp_path / "f", {"a": 1})
    with pytest.raises(OSError):
        folders.write(tmp_path / "no" / "f", b"")
    assert folders.read_json(tmp_path / "f") == {"a": 1} and [path.name for path in tmp_path.iterdir()] == ["f"]
    assert folders.read_json(tmp_path / "none") == {} and folders.read_json(tmp_path) == {}


def test_on_a_full_disk_a_file_is_overwritten_in_its_own_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "engine.json"
    folders.write_json(file, {"state": "a rather long state"})

    def full(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders.os, "fdopen", full)
    folders.write_json(file, {"state": "fatal"})
    assert folders.read_json(file) == {"state": "fatal"}
    with pytest.raises(OSError):
        folders.write_json(file, {"state": "x" * 5000})
    assert folders.read_json(file) == {"state": "fatal"}


def test_a_log_that_grew_is_cut_and_kept_beside(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab") as writer:
        writer.write(b"x" * 100)
        writer.flush()
        assert not logs.rotate(log, 100) and logs.rotate(log, 99)
        writer.write(b"after")
        writer.flush()
    assert log.read_bytes() == b"after" and (tmp_path / "engine.log.1").read_bytes() == b"x" * 100


# --- what is shown


def test_the_bridge_is_told_who_serves_and_whether_to_hold() -> None:
    history = History().serves()
    document = engine_document(history.state, CLOCK)
    assert (document["state"], document["model"], document["served_names"], document["hold"]) == ("serving", "p", ["m"], False)
    history.engine_dies()
    assert engine_document(history.state, CLOCK)["hold"] is True and engine_document(history.state, CLOCK)["state"] == "reloading"


def test_while_a_swap_is_only_prepared_the_old_model_is_named() -> None:
    from pod.supervisor.events import SwapWanted

    history = History(swap_set()).serves().happens(SwapWanted("q"))
    assert engine_document(history.state, CLOCK)["model"] == "p"
    history.done("secrets", "weights")
    assert engine_document(history.state, CLOCK)["model"] == "q"


def test_a_fatal_state_says_what_to_do() -> None:
    history = History().begins().done("secrets").fails("weights", "gated", "o/m is closed to this account")
    document = engine_document(history.state, CLOCK)
    assert document["state"] == "fatal" and "closed" in document["detail"] and not document["hold"]


def test_status_is_json_and_readable() -> None:
    history = History().serves().engine_dies().done("stop", "pause", "prepare", "start", "prove")
    facts = {"now": CLOCK.wall, "engine_pid": 7, "phases": {"start": 1.5}, "last": [{"message": "hello"}]}
    document = json.loads(json.dumps(status_document(history.state, CLOCK, facts)))
    text = "\n".join(lines(document))
    assert "serving" in text and "signal 9" in text and "hello" in text and document["restarts"]["engine"][0]["reason"]


def test_wishes_for_engines() -> None:
    state = History(swap_set()).serves().state
    assert swap_answer(state, "q", 0.0)[0] == 202 and swap_answer(state, "nobody", 0.0)[0] == 404
    failed = state.but(swap_failure=SwapFailure("q", "no room", 100.0))
    assert swap_answer(failed, "q", 110.0)[0] == 503 and "no room" in swap_answer(failed, "q", 110.0)[1]
    assert swap_answer(failed, "q", 200.0)[0] == 202
    assert swap_answer(History(swap_set()).begins().state, "q", 0.0)[0] == 409
    fatal = History(swap_set()).begins().fails("secrets", "secret").state
    assert swap_answer(fatal, "q", 0.0)[0] == 503


# --- the engine's log


def test_phases_facts_and_cause(tmp_path: Path) -> None:
    log, told, noted = tmp_path / "engine.log", [], []
    log.write_text("CUDA out of memory. Tried to allocate 9 GiB\n")
    reader = Reader(log, told.append, lambda kind, message, **facts: noted.append((kind, message)))
    reader.begin()
    with log.open("a") as stream:
        stream.write("INFO 11-30 01:00:00 [x.py:1] Starting to load model m...\nINFO 11-30 01:00:01 [x.py:1] Application startup comp")
        stream.flush()
        reader.read()
        assert [event.phase for event in told] == ["load"] and reader.cause() == ("", False)
        stream.write("lete.\nRuntimeError: CUDA error: unspecified launch failure\n")
        stream.flush()
        reader.read()
    assert [event.phase for event in told] == ["load", "serving"]
    cause, is_sick = reader.cause()
    assert "unspecified launch failure" in cause and is_sick


def test_an_end_that_nobody_knows_is_told_in_the_last_words_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    reader = Reader(log, lambda event: None, lambda kind, message, **facts: None)
    reader.begin()
    log.write_text("INFO 11-30 01:00:00 [x.py:1] Starting to load model m...\nIllegal instruction\n\nINFO 11-30 01:00:01 [x.py:1] idle\n")
    assert reader.cause() == ("its log ends with: Illegal instruction", False)
    with log.open("a") as stream:
        stream.write("x" * 5000 + "\n")
    assert len(reader.cause()[0]) < 450


# --- a runtime in a payload


def payload(**members: bytes | str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return bz2.compress(buffer.getvalue())


def test_a_runtime_is_unpacked_alone(tmp_path: Path) -> None:
    unpack_runtime(payload(**{"runtime/pod/__init__.py": b"x = 1", "manifest.json": b"{}"}), tmp_path / "r")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()] == ["r/pod/__init__.py"]


@pytest.mark.parametrize("members", [{"manifest.json": b"{}"}, {"runtime/../../evil": b""}, {"runtime/link": "/etc/passwd"}])
def test_a_payload_that_is_none_leaves_nothing(tmp_path: Path, members: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError):
        unpack_runtime(payload(**members), tmp_path / "in" / "r")
    assert not any(path.is_file() for path in tmp_path.rglob("*")) and not (tmp_path / "in" / "r").exists()


# --- HTTP on loopback


def test_only_programs_on_this_machine_may_ask() -> None:
    async def asked(*heads: str) -> list[str]:
        server = await http.serve(0, lambda method, path, query, body: (200, {"said": f"{method} {path} {query} {body.decode()}"}))
        port = server.sockets[0].getsockname()[1]
        answers = []
        for head in heads:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.replace("PORT", str(port)).encode())
            answers.append((await reader.read()).decode())
            writer.close()
        server.close()
        return answers

    fine, page, foreign, long, broken = asyncio.run(asked(
        "POST /a?lines=3 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 2\r\n\r\nhi", "GET /a HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://evil\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: rebound.example:PORT\r\n\r\n", "POST /a HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 99999999\r\n\r\n", "rubbish\r\n\r\n"))  # fmt: skip
    assert "200 OK" in fine and "POST /a {'lines': '3'} hi" in fine
    assert "400" in page and "400" in foreign and "413" in long and broken == ""


# --- the end of the spend


class Api(BaseHTTPRequestHandler):
    statuses: ClassVar[list[int]] = []
    seen: ClassVar[list[tuple[str, str, str]]] = []

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        """One action on a pod."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        Api.seen.append((self.path, body, self.headers["authorization"] + self.headers["user-agent"]))
        self.send_response(Api.statuses.pop(0))
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


@pytest.mark.parametrize(("statuses", "ok", "calls"), [([200], True, 1), ([500, 200], True, 2), ([401], False, 1), ([500, 500, 500], False, 3)])
def test_the_provider_is_told_to_stop_the_pod(statuses: list[int], ok: bool, calls: int) -> None:
    Api.statuses, Api.seen = list(statuses), []
    server = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done, words = RunPod(f"http://127.0.0.1:{server.server_port}", "pod1", "rpa_secret").end("crash-loop")
    server.shutdown()
    assert done is ok and len(Api.seen) == calls and "rpa_secret" not in words
    path, body, headers = Api.seen[0]
    assert path == "/v2/pods/pod1/action" and json.loads(body) == {"action": "stop"} and "Bearer rpa_secret" in headers and "podwright-pod/" in headers


def test_without_a_key_it_is_said_and_held() -> None:
    assert isinstance(spend_of({}), Held) and isinstance(spend_of({"RUNPOD_POD_ID": "a/../b", "RUNPOD_API_KEY": "k"}), Held)
    assert isinstance(spend_of({"RUNPOD_POD_ID": "abc", "RUNPOD_API_KEY": "k"}), RunPod)
    assert Held().end("x")[0] is False


def test_a_swap_set_shows_its_first_engine() -> None:
    manifest = example_manifest()
    manifest = dataclasses.replace(manifest, swap=Swap((dataclasses.replace(manifest.engine, name="q"),), False))
    assert target_of(manifest, {}).engine == "p" and target_of(manifest, {}, "q").engine == "q" and target_of(manifest, {}, "gone").engine == "p"


def test_a_stop_is_over_when_the_engines_end_was_told_and_not_before(tmp_path: Path) -> None:
    """On a busy machine the kernel tells of a killed process late; the next engine must not be blamed for it."""
    told: list[str] = []

    class LateChildren:
        """An engine that is stopped at once, and whose end is told a little later."""

        abandoned: ClassVar[set[str]] = set()

        def __init__(self) -> None:
            self.engine: Child | None = Child("engine", processes.Identity(1 << 22, 0, "", "engine:x"), {})

        def of(self, role: str) -> Child | None:
            return self.engine

        def all(self) -> tuple[Child, ...]:
            return (self.engine,) if self.engine else ()

        async def end_left_of_engines(self) -> set[int]:
            return set()

        async def stop(self, child: Child, **_: Any) -> processes.Stopped:
            asyncio.get_running_loop().call_later(0.3, self.end)
            return processes.Stopped(0.0, True, 0, ())

        def end(self) -> None:
            told.append("ended")
            self.engine = None

    async def work() -> None:
        folder = folders.state_folder({folders.STATE_ENV: str(tmp_path)})
        steps = Steps(folder, {}, LateChildren(), Workers("x"), lambda event: None, lambda kind, message, **facts: None)  # type: ignore[arg-type]
        await steps.stop()
        told.append("stopped")

    asyncio.run(work())
    assert told == ["ended", "stopped"]
