"""The steps of a change, done for real. Each ends by returning, or by raising StepFailed with a kind, a cause and a cure."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pod import argv_check, belongings, gpu, processes
from pod.contract import Manifest
from pod.folders import StateFolder
from pod.hub import child as hub_child
from pod.launch import LaunchError, LaunchPlan, host_env, launch_plan
from pod.patches import upgrades
from pod.patches.job import Job
from pod.patches.outcomes import Applied, Refused, of_line
from pod.strict_json import encoded
from pod.supervisor.caching import Caching
from pod.supervisor.children import Child, Children
from pod.supervisor.events import PASSING, Progress
from pod.supervisor.reading import Reader
from pod.supervisor.state import Step, Target
from pod.supervisor.workers import Ended, Workers
from pod.watchdog import probe
from pod.weights import offline
from pod.weights.presence import presence

# Bounds how long a reload waits for running requests. Longer answers are cut: whoever publishes with `when: idle` waits instead.
DRAIN_LIMIT_S = 120.0
# Between two looks at the engine's load while it drains, and at its health while it starts: short against what it is measured by.
DRAIN_LOOK_S, START_LOOK_S = 0.5, 0.25
# Bounds one health question of a starting engine, which is slow to answer while it compiles.
HEALTH_S = 2.0
# Bounds the generation that proves a start. The first one after a cold start took 52 s; one that compiles kernels takes longer.
PROVE_S = 300.0
# Bounds the argument check: the engine's import takes 10 s on an idle core and a minute on a busy one.
ARGV_S = 180.0
# Bounds a whole download. Two days bring 400 GB over 20 Mbit/s; what hangs is ended by the worker itself, sooner.
DOWNLOAD_S = 48 * 3600.0
# Bounds all repairs of one engine: each script has its own, shorter bound, and may fetch itself first.
PATCHES_S = 900.0
# Bounds bringing back a replaced distribution: one installation has 1,800 s, and there are few.
TAKE_BACK_S = 3600.0
# Bounds the start of an LMCache server, which only allocates host memory.
KV_STORE_S = 60.0
# Between two looks whether the kernel's word on a process that was killed has come; it takes milliseconds on a machine that is not busy.
REAP_LOOK_S = 0.02
# Between two looks at the shared memory and the sockets of an engine that starts: it may end before it serves, and again and again.
NOTE_FILES_S = 5.0
ENGINE_PYTHON = Path("/opt/podwright/engine-python")


class StepFailed(Exception):
    """Why a step did not work. Kinds in `events.PASSING` are tried again, those in `changes.CRASHES` cost a restart."""

    def __init__(self, kind: str, detail: str, fix: str = "") -> None:
        super().__init__(detail)
        self.kind, self.detail, self.fix = kind, detail, fix


Post = Callable[[Any], None]
Note = Callable[..., None]


class Steps:
    """Does steps. `tell` posts progress, `note` writes the journal; one object serves the whole life of a supervisor."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], children: Children, workers: Workers, tell: Post, note: Note) -> None:
        self._folder, self._environ, self._children, self._workers, self._tell, self._note = folder, environ, children, workers, tell, note
        self._gpu_before: tuple[int, ...] | None = None
        self._has_measured = False
        self.hurried = False
        self.reader = Reader(folder.logs / "engine.log", tell, note)
        self.caching = Caching(environ, workers, note)
        self.start_s = 0.0

    def of(self, step: Step, target: Target, grace_s: float) -> Awaitable[None]:
        """The step, ready to be awaited."""
        doers: dict[Step, Callable[[], Awaitable[None]]] = {
            "pause": lambda: asyncio.sleep(grace_s), "secrets": lambda: self._secrets(target), "argv": lambda: self._argv(target),
            "weights": lambda: self.weights(target, lambda text: self._tell(Progress("download", text))), "drain": lambda: self._drain(target),
            "stop": self.stop, "prepare": lambda: self._prepare(target), "start": lambda: self._start(target), "prove": lambda: self._prove(target),
            "take-back": lambda: self._take_back(target),
        }  # fmt: skip
        return doers[step]()

    async def _secrets(self, target: Target) -> None:
        self._plan(target)

    def _plan(self, target: Target) -> LaunchPlan:
        try:
            return launch_plan(target.manifest, target.spec, self._environ)
        except LaunchError as error:
            raise StepFailed(error.kind, error.cause, error.fix) from None

    def hub_cache(self, manifest: Manifest) -> Path:
        """Where checkpoints lie, for us and for the engine."""
        return Path(self._environ.get("HF_HUB_CACHE") or Path(self._environ.get("HF_HOME") or manifest.supervisor.hf_home) / "hub")

    async def _argv(self, target: Target) -> None:
        plan, engine = self._plan(target), self._children.of("engine")
        if engine is not None and engine.identity.argv_sha256 == processes.hash_of(plan.argv):
            return  # the engine that serves took this very command line
        python = str(ENGINE_PYTHON) if ENGINE_PYTHON.exists() else sys.executable
        try:
            ended = await self._workers.run([python, argv_check.__file__], plan.env, limit_s=ARGV_S, given=json.dumps(list(plan.argv)).encode())
        except TimeoutError:
            raise StepFailed("timeout", f"the engine's parser gave no answer within {ARGV_S:.0f} s") from None
        except OSError as error:
            raise StepFailed("no-program", f"{python}: {error.strerror}") from None
        answer = _last_json(ended)
        if answer.get("ok") is not True:
            why = str(answer.get("error") or ended.errors.strip().splitlines()[-1:] or f"code {ended.code}")
            raise StepFailed("argv", f"the installed engine refuses the command line: {why}", "publish a manifest for the engine release of this image")

    async def weights(self, target: Target, progress: Callable[[str], None]) -> None:
        """Bring what the engine opens to this disk. Nothing is asked of the Hub where all is there."""
        fetches, cache = target.spec.launch.fetch, self.hub_cache(target.manifest)
        found = await asyncio.to_thread(lambda: [presence(cache, fetch) for fetch in fetches])
        missing = [have for have in found if not have.whole]
        if not missing:
            return
        self._note("download", "; ".join(f"{have.repo} {have.problem}" for have in missing))
        ended = await self._downloaded(json.dumps([dataclasses.asdict(fetch) for fetch in fetches]).encode(), cache, progress)
        outcome = next((line for text in reversed(ended.lines) if isinstance(line := hub_child.parsed(text), hub_child.Outcome)), None)
        outcome = outcome or hub_child.vanished(ended.code, ended.errors)
        if not outcome.is_ok:
            lasting = outcome.kind if outcome.kind not in PASSING else "hub"
            raise StepFailed("network" if outcome.may_pass else lasting, outcome.detail, outcome.fix)
        self._note("download", outcome.detail)

    async def _downloaded(self, fetches: bytes, cache: Path, progress: Callable[[str], None]) -> Ended:
        def tell(text: str) -> None:
            line = hub_child.parsed(text)
            if isinstance(line, hub_child.Progress):
                progress(str(line))
            elif isinstance(line, hub_child.Retry):
                self._note("download", f"{line.detail}; again in {line.pause_s:.0f} s")

        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pod.weights", "--cache", str(cache)]
        try:
            return await self._workers.run(command, hub_child.environment(self._environ), limit_s=DOWNLOAD_S, given=fetches, tell=tell)
        except TimeoutError:
            raise StepFailed("timeout", f"the download took longer than {DOWNLOAD_S / 3600:.0f} h") from None

    async def _drain(self, target: Target) -> None:
        engine = self._children.of("engine")
        port = int(engine.facts.get("port", target.spec.launch.port)) if engine else target.spec.launch.port
        deadline = asyncio.get_running_loop().time() + DRAIN_LIMIT_S
        while asyncio.get_running_loop().time() < deadline:
            seen = await asyncio.to_thread(probe.metrics, port)
            if seen is None or seen.running + seen.waiting == 0:
                return
            self._tell(Progress("drain", f"{seen.running + seen.waiting} requests are finishing"))
            await asyncio.sleep(DRAIN_LOOK_S)
        self._note("drain", f"requests still run after {DRAIN_LIMIT_S:.0f} s and are ended")

    async def stop(self) -> None:
        """The one way in which an engine is stopped: group, stragglers, and the memory of every card free again."""
        engine = self._children.of("engine")
        loop = asyncio.get_running_loop()
        if engine is not None:
            stopped = await self._children.stop(engine, hurried=lambda: self.hurried)
            await self._reaped(engine)
            self._note("stopped", f"engine {engine.pid} ended after {stopped.seconds:.1f} s", seconds=round(stopped.seconds, 3),
                       killed=stopped.was_killed, stragglers=stopped.stragglers, survivors=list(stopped.survivors))  # fmt: skip
        strays = await self._children.end_left_of_engines()
        if strays:
            self._note("stopped", f"{len(strays)} processes of a former engine were still there", pids=sorted(strays))
        await self.tidied(engine)
        if not self._has_measured:
            self._has_measured = True
            self._gpu_before = await loop.run_in_executor(None, gpu.used_mib) if engine is None and not strays else None
        is_free, used = await loop.run_in_executor(None, gpu.wait_free, self._gpu_before)
        if not is_free:
            self._note("gpu", f"GPU memory is still in use after {gpu.FREE_S:.0f} s: {used} MiB; the engine may find too little", mib=list(used or ()))

    async def _reaped(self, engine: Child) -> None:
        """Wait until its end has been told, too: told later, it would be taken for the end of the engine that is started next."""
        deadline = asyncio.get_running_loop().time() + processes.GONE_S
        while engine in self._children.all() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(REAP_LOOK_S)

    async def tidied(self, engine: Child | None) -> None:
        """Remove the shared memory and the sockets of an engine that is gone, or that was just stopped."""
        paths = self._children.abandoned | set(engine.facts.get("files", ()) if engine else ())
        removed = await asyncio.get_running_loop().run_in_executor(None, belongings.remove, paths)
        self._children.abandoned = {path for path in paths.difference(removed) if os.path.exists(path)}  # noqa: PTH110 - somebody uses it still
        if removed:
            self._note("stopped", f"{len(removed)} segments of shared memory and sockets that the engine left were removed", count=len(removed))

    async def _noted_files(self) -> None:
        """Note what an engine that starts has made so far, so that it can be removed whenever that ends."""
        if (engine := self._children.of("engine")) is not None:
            found = await asyncio.to_thread(lambda: belongings.belongings(processes.family(engine.identity)))
            known = set(engine.facts.get("files", ()))
            if found - known:
                self._children.note(engine, files=sorted(found | known))

    async def _prepare(self, target: Target) -> None:
        _write_nccl_conf(target.spec.launch.nccl_conf, self._environ)
        await self._patches(target)
        await self.kv_store(target)
        await self.caching.restore(target)

    async def _patches(self, target: Target) -> None:
        job = Job.of(target.manifest, target.spec, self.hub_cache(target.manifest), self._folder.path / "patches")
        if job.is_empty:
            return
        self._tell(Progress("patch"))
        environ = {**hub_child.environment(self._environ), **host_env(self._environ)}
        try:
            ended = await self._workers.run([sys.executable, "-m", "pod.patches", "apply"], environ, limit_s=PATCHES_S,
                                            given=json.dumps(encoded(job)).encode())  # fmt: skip
        except TimeoutError:
            raise StepFailed("patch", f"repairs were not done within {PATCHES_S:.0f} s", "read the patches; one of them hangs") from None
        outcomes = [outcome for line in ended.lines if (outcome := of_line(line)) is not None]
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                raise StepFailed("network" if outcome.may_pass else "patch", outcome.reason, outcome.fix)
            self._note("patch", f"{outcome.name}: {outcome.detail}", applied=isinstance(outcome, Applied))
        if ended.code != 0:
            raise StepFailed("patch", hub_child.vanished(ended.code, ended.errors).detail)

    async def _take_back(self, target: Target) -> None:
        """Bring back what the bootstrap has replaced. Where that fails the start is tried all the same, and fails by itself."""
        environ = {**self._plan(target).env, "PYTHONPATH": self._environ.get("PYTHONPATH", "")}
        try:
            ended = await self._workers.run([sys.executable, "-m", "pod.patches", "take-back"], environ, limit_s=TAKE_BACK_S)
        except TimeoutError:
            self._note("upgrade", f"nothing could be brought back within {TAKE_BACK_S:.0f} s", applied=False)
            return
        outcomes = [outcome for line in ended.lines if (outcome := of_line(line)) is not None]
        for outcome in outcomes:
            text = outcome.reason if isinstance(outcome, Refused) else f"{outcome.name} {outcome.detail}"
            self._note("upgrade", text, applied=isinstance(outcome, Applied))
        if not outcomes:
            self._note("upgrade", hub_child.vanished(ended.code, ended.errors).detail, applied=False)

    async def kv_store(self, target: Target) -> None:
        """Start the LMCache server that the engine needs, and stop one that it does not."""
        store, running = target.manifest.kv_store, self._children.of("kv-store")
        if running is not None and (store is None or running.identity.argv_sha256 != processes.hash_of(store.argv)):
            await self._children.stop(running)
            running = None
        if store is None or running is not None:
            return
        self._tell(Progress("kv-store", f"{store.size_gib} GiB of host memory"))
        try:
            child = self._children.start("kv-store", store.argv, self._plan(target).env, self._folder.logs / "kv-store.log")
        except OSError as error:
            raise StepFailed("kv-store", f"{store.argv[0]}: {error.strerror}", "build the image with lmcache, or publish without kv_store") from None
        deadline = asyncio.get_running_loop().time() + KV_STORE_S
        while not _listens(store.zmq_port):
            if not processes.is_alive(child.identity) or asyncio.get_running_loop().time() > deadline:
                raise StepFailed("kv-store", f"the LMCache server does not listen on port {store.zmq_port}", "read kv-store.log, or publish without kv_store")
            await asyncio.sleep(START_LOOK_S)

    async def _start(self, target: Target) -> None:
        engine, spec, began = self._children.of("engine"), target.spec, asyncio.get_running_loop().time()
        if engine is None:
            await self._spawned(target)
        else:  # adopted while it was starting
            self.reader.look_back()
        health, noted = spec.launch.health, began
        while not await asyncio.to_thread(probe.health, spec.launch.port, health.path, HEALTH_S, health.status):
            self.reader.read()
            if asyncio.get_running_loop().time() - noted >= NOTE_FILES_S:
                await self._noted_files()
                noted = asyncio.get_running_loop().time()
            await asyncio.sleep(START_LOOK_S)
        self.reader.read()
        await self._noted_files()
        self.start_s = asyncio.get_running_loop().time() - began

    async def _spawned(self, target: Target) -> None:
        plan, spec = self._plan(target), target.spec
        if _listens(plan.port):
            raise StepFailed("port-taken", f"port {plan.port} is taken by another program", "stop it, or set VL_PORT and start a new pod")
        found = await asyncio.to_thread(lambda: [presence(self.hub_cache(target.manifest), fetch) for fetch in spec.launch.fetch])
        decision = offline.offline(found, self._environ.get(offline.LEVER))
        self._note("offline", decision.reason)
        place = await self.caching.place_of(target)
        env = offline.engine_env({**plan.env, "VLLM_CACHE_ROOT": place.root} if place else plan.env, decision)
        facts = {"engine": target.engine, "manifest": target.sha, "port": plan.port}
        self.reader.begin()
        try:
            self._children.start("engine", plan.argv, env, self._folder.logs / "engine.log", facts)
        except FileNotFoundError:
            raise StepFailed("no-program", f"{plan.argv[0]}: no such program in this image", "build the image again, or publish a manifest for this one") from None
        except OSError as error:
            raise StepFailed("no-program", f"{plan.argv[0]}: {error.strerror}") from None

    async def _prove(self, target: Target) -> None:
        warm_up, spec = target.manifest.supervisor.warm_up, target.spec
        result = await asyncio.to_thread(probe.generate, spec.launch.port, warm_up.path, spec.served_names[0], warm_up.prompt,
                                         warm_up.max_tokens, PROVE_S, self.engine_key(target.manifest))  # fmt: skip
        if not result.ok:
            raise StepFailed("no-answer", f"the first generation failed after {result.seconds:.1f} s: {result.error}")
        if warm_up.expect is not None and warm_up.expect.casefold() not in result.text.casefold():
            raise StepFailed("wrong-answer", f"asked to continue {warm_up.prompt!r}, it said {result.text[:80]!r} and not {warm_up.expect!r}")
        await self._noted_files()
        await asyncio.to_thread(upgrades.settle, upgrades.note_of(self._environ))
        self._note("proved", f"a generation was answered in {result.seconds:.1f} s", seconds=round(result.seconds, 3))

    def engine_key(self, manifest: Manifest) -> str | None:
        """The key that the engine itself asks for."""
        own = self._environ.get(manifest.bridge.api_key_env or "") if manifest.bridge.mode == "off" else None
        return own or self._environ.get("VLLM_API_KEY") or None


def _last_json(ended: Ended) -> dict[str, Any]:
    for line in reversed(ended.lines):
        with contextlib.suppress(ValueError):
            data = json.loads(line)
            if isinstance(data, dict):
                return data
    return {}


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _write_nccl_conf(settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """NCCL settings in the file that NCCL itself reads: an engine's workers do not inherit the variables."""
    if settings:
        text = "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))
        Path(environ.get("HOME") or os.path.expanduser("~"), ".nccl.conf").write_text(text)  # noqa: PTH111 - HOME may be unset
