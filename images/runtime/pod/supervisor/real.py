"""Effects on the real world: each command becomes a task, and what comes of it becomes an event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from pod.folders import StateFolder
from pod.supervisor.bridge import Bridges
from pod.supervisor.children import Child, Children
from pod.supervisor.effects import (
    CancelSteps,
    Effect,
    EndSpend,
    FetchRuntime,
    HandOver,
    KillBridge,
    Preload,
    PublishCache,
    Record,
    ReloadBridge,
    ReplaceBridge,
    RunStep,
    StartBridge,
    StopAll,
    StopEngine,
)
from pod.supervisor.events import BridgeExited, EngineExited, Preloaded, RuntimeFetched, SpendEnded, StepDone
from pod.supervisor.spend import Spend
from pod.supervisor.state import Target
from pod.supervisor.steps import StepFailed, Steps
from pod.supervisor.workers import Workers

Post = Callable[[Any], None]
Note = Callable[..., None]
# A store that ends at once must not be started in a tight loop.
KV_STORE_PAUSE_S = 10.0


class Real:
    """The one that acts. `finish` ends the supervisor with an exit code; `fetch_runtime` is the
    follower's part, `last_words` the mirror's."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], nonce: str, post: Post, note: Note, spend: Spend,
                 finish: Callable[[str, int], None]) -> None:  # fmt: skip
        self.children = Children(folder, nonce, self._ended)
        self.workers = Workers(nonce)
        self.steps = Steps(folder, environ, self.children, self.workers, post, note)
        self.bridges = Bridges(folder, environ, self.children, post, note)
        self._folder, self._post, self._note, self._spend, self._finish = folder, post, note, spend, finish
        self._step: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self.fetch_runtime: Callable[[str], Coroutine[Any, Any, str]] | None = None
        self.last_words: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.target: Target | None = None
        self._is_ending = False

    def perform(self, effect: Effect) -> None:
        """Begin one command."""
        match effect:
            case RunStep():
                self._step = asyncio.get_running_loop().create_task(self._done_step(effect))
            case CancelSteps():
                if self._step is not None:
                    self._step.cancel()
            case Record():
                self._note(effect.kind, effect.message, **effect.facts)
            case StartBridge():
                self.bridges.start(effect.delay_s)
            case ReloadBridge():
                self.bridges.reload()
            case ReplaceBridge():
                self.bridges.replace()
            case KillBridge():
                self.bridges.kill(effect.pid)
            case HandOver():
                self._finish(effect.sha256, 0)
            case _:
                self._behind(self._long(effect))

    def _long(self, effect: Effect) -> Coroutine[Any, Any, None]:
        match effect:
            case StopEngine():
                return self.steps.stop()
            case StopAll():
                return self._stop_all()
            case EndSpend():
                return self._end_spend(effect.reason)
            case Preload():
                return self._preload(effect.engines)
            case PublishCache():
                return self.steps.caching.publish(effect.target, self.steps.start_s)
            case FetchRuntime():
                return self._runtime(effect.sha256)
        raise TypeError(effect)

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._note("fault", f"a background task failed, the service goes on: {type(error).__name__}: {error}")

    async def _done_step(self, effect: RunStep) -> None:
        done = StepDone(effect.change, effect.step, True)
        try:
            await self.steps.of(effect.step, effect.target, effect.grace_s)
        except StepFailed as error:
            done = StepDone(effect.change, effect.step, False, error.kind, error.detail, error.fix)
        except OSError as error:
            done = StepDone(effect.change, effect.step, False, "system", f"{error.strerror}: {error.filename or ''}".rstrip(": "))
        except Exception as error:
            done = StepDone(effect.change, effect.step, False, "fault", f"{type(error).__name__}: {error}")
        self._post(done)

    def _ended(self, child: Child, code: int | None) -> None:
        if child.role == "engine":
            self._post(EngineExited(child.pid, code, *self.steps.reader.cause()))
        elif child.role == "bridge":
            self._post(BridgeExited(child.pid, code, self.bridges.last_line() if code and code > 0 else ""))
        else:
            self._note("child", f"{child.role} ended with {code}", role=child.role, code=code)
            if child.role == "kv-store" and not self._is_ending:
                self._behind(self._kv_store_again())

    async def _kv_store_again(self) -> None:
        """An engine that has lost its store goes on without it, and finds it again."""
        await asyncio.sleep(KV_STORE_PAUSE_S)
        if self.target is not None and self.children.of("kv-store") is None and self.children.of("engine") is not None:
            await self.steps.kv_store(self.target)

    async def _stop_all(self) -> None:
        """Bridge and engine end at the same time: streams that still run end with the engine, and the bridge says why."""
        self._is_ending = True
        if self._step is not None:
            self._step.cancel()
        for task in self._background - {asyncio.current_task()}:
            task.cancel()
        others = [child for child in self.children.all() if child.role not in ("engine", "bridge")]
        await asyncio.gather(self.bridges.stop(), self._stop_engine(), *(self.children.stop(child) for child in others), return_exceptions=True)
        self.workers.end_strays()
        self._finish("", 0)

    async def _stop_engine(self) -> None:
        engine = self.children.of("engine")
        if engine is not None:
            stopped = await self.children.stop(engine, hurried=lambda: self.steps.hurried)
            self._note("stopped", f"engine {engine.pid} ended after {stopped.seconds:.1f} s", survivors=list(stopped.survivors))
        await self.children.end_left_of_engines()
        await self.steps.tidied(engine)

    async def _end_spend(self, reason: str) -> None:
        if self.last_words is not None:
            await self.last_words()
        ok, detail = await asyncio.to_thread(self._spend.end, reason)
        self._post(SpendEnded(ok, detail))

    async def _preload(self, engines: tuple[str, ...]) -> None:
        for name in engines:
            if self.target is None:
                return
            with contextlib.suppress(StopIteration):
                target = Target(self.target.manifest, name, self.target.sha, self.target.sequence)
                try:
                    await self.steps.weights(target, lambda text: None)
                    self._post(Preloaded(name, True))
                except StepFailed as error:
                    self._post(Preloaded(name, False, error.detail))

    async def _runtime(self, sha256: str) -> None:
        assert self.fetch_runtime is not None
        problem = await self.fetch_runtime(sha256)
        self._post(RuntimeFetched(sha256, not problem, problem))
