"""The compile cache around a start: brought before it, published after one that proved itself. Never a reason not to start."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pod import gpu
from pod.cache.key import engine_levers, runtime_facts, weights_facts
from pod.cache.seal import Seal
from pod.cache.store import Job, Place
from pod.contract import Manifest
from pod.hub import child as hub_child
from pod.launch import resolved
from pod.supervisor.state import Target
from pod.supervisor.workers import Workers

# Bounds bringing the archive: 1.2 GB took a minute in the source deployments; what takes longer than compiling is of no use.
RESTORE_S = 300.0
# Bounds packing and publishing, which nobody waits for.
PUBLISH_S = 1800.0


class Caching:
    """One pod's compile caches. `root_of` is the folder that an engine must be started with."""

    def __init__(self, environ: Mapping[str, str], workers: Workers, note: Callable[..., None]) -> None:
        self._environ, self._workers, self._note = environ, workers, note
        self._places: dict[tuple[str, str], Place] = {}
        self._restored: dict[str, dict[str, Any]] = {}

    async def place_of(self, target: Target) -> Place | None:
        """Where the engine's cache is; None where the manifest has none for it."""
        supervisor = target.manifest.supervisor
        cache = supervisor.compile_caches.get(target.engine)
        if cache is None:
            return None
        name = (target.sha, target.engine)
        if name not in self._places:
            driver, gpus = await asyncio.to_thread(gpu.identity)
            # Levers act on the manifest's own engine alone.
            levers = engine_levers(supervisor.overrides, self._environ) if target.engine == target.manifest.engine.name else {}
            facts = await asyncio.to_thread(runtime_facts, target.manifest.pod.distribution, driver, gpus, levers)
            facts |= weights_facts(supervisor.hf_home, self._environ)
            root = self._environ.get("VLLM_CACHE_ROOT") or supervisor.vllm_cache_root
            self._places[name] = Place.of(cache, facts, root)
        return self._places[name]

    async def restore(self, target: Target) -> None:
        """Bring the cache of an engine, if somebody has published one."""
        place = await self.place_of(target)
        if place is None:
            return
        seal = self._seal(target.manifest)
        if isinstance(seal, str):
            self._note("compile-cache", f"off: {seal}; nothing is restored or published", key=place.key, outcome="off")
            return
        stored = await self._done(["restore"], Job(place, seal), RESTORE_S)
        self._restored[place.key] = stored
        self._note("compile-cache", f"{stored['kind']}: {stored['detail']}", key=place.key, outcome=stored["kind"], seconds=stored.get("seconds", 0.0))

    async def publish(self, target: Target, start_s: float) -> None:
        """Publish what a start has compiled, or say what a hit has saved."""
        place = await self.place_of(target)
        seal = self._seal(target.manifest)
        if place is None or isinstance(seal, str):
            return
        restored = self._restored.get(place.key, {})
        if restored.get("kind") == "hit":
            saved = float(restored.get("cold_start_s") or 0.0) - start_s
            self._note("compile-cache", f"a hit: this start took {start_s:.0f} s, {saved:.0f} s less than the cold one", key=place.key, saved_s=round(saved, 1))
        stored = await self._done(["publish", f"--cold-start-s={start_s:.1f}"], Job(place, seal), PUBLISH_S)
        self._note("compile-cache", f"{stored['kind']}: {stored['detail']}", key=place.key, outcome=stored["kind"])

    def _seal(self, manifest: Manifest) -> Seal | str:
        """What archives are sealed with here; a text says why they cannot be."""
        name = manifest.bridge.api_key_env
        secret = resolved(self._environ).get(name, "").strip() if name else ""
        if not secret:
            return f"{name or 'the key of the endpoint'} is not set, and without it an archive of this owner's pods looks like anybody's"
        try:
            return Seal.of(secret)
        except ValueError as error:
            return f"{name} {error}, so that whoever reads an archive could find it; use a longer one"

    async def _done(self, words: list[str], job: Job, limit_s: float) -> dict[str, Any]:
        argv = [sys.executable, "-m", "pod.cache", *words]
        environ = hub_child.environment(self._environ)
        try:
            ended = await self._workers.run(argv, environ, limit_s=limit_s, given=json.dumps(dataclasses.asdict(job)).encode())
            for line in reversed(ended.lines):
                data = json.loads(line)
                if isinstance(data, dict) and data.get("event") == "result":
                    return data
            return {"kind": "failed", "detail": hub_child.vanished(ended.code, ended.errors).detail}
        except TimeoutError:
            return {"kind": "failed", "detail": f"not done within {limit_s:.0f} s"}
        except (OSError, ValueError) as error:
            return {"kind": "failed", "detail": str(error)}
