"""All repairs of one engine, in order: the checkpoint's files, then the engine's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pod.contract import ConfigPatch, Engine, Fetch, Manifest, ScriptPatch
from pod.hub import child
from pod.hub.files import repo_folder, snapshot_of
from pod.patches import checkpoint, script
from pod.patches.installed import Installed
from pod.patches.outcomes import Outcome, Refused


@dataclasses.dataclass(frozen=True)
class Job:
    """What `python -m pod.patches apply` reads. `kept` is the folder of verified scripts."""

    config_patches: tuple[ConfigPatch, ...]
    script_patches: tuple[ScriptPatch, ...]
    model: Fetch | None
    hub_cache: str
    kept: str
    distribution: str

    @classmethod
    def of(cls, manifest: Manifest, engine: Engine, hub_cache: Path, kept: Path) -> Job:
        """The repairs that `engine` needs before each of its starts."""
        model = next((fetch for fetch in engine.launch.fetch if fetch.role == "model"), None)
        launch = engine.launch
        return cls(launch.config_patches, launch.script_patches, model, str(hub_cache), str(kept), manifest.pod.distribution)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done, so that no process need be started for it."""
        return not self.config_patches and not self.script_patches


def applied(job: Job, env: Mapping[str, str], find: Callable[[str], Installed] = Installed) -> Iterator[Outcome]:
    """Each repair's outcome, as it is made; the first refusal is the last. Raises nothing."""
    for config_patch in job.config_patches:
        outcome = _on_checkpoint(config_patch, job)
        yield outcome
        if isinstance(outcome, Refused):
            return
    installed: Installed | None = None
    for script_patch in job.script_patches:
        try:
            installed = installed or find(job.distribution)
        except LookupError as error:
            yield Refused(
                f"{script_patch.repo}/{script_patch.file}", str(error), "build the image again: it has no engine that could be repaired"
            )
            return
        outcome = script.apply(script_patch, installed, lambda repo, file, target: _fetched(repo, file, target, env), Path(job.kept), env)
        yield outcome
        if isinstance(outcome, Refused):
            return


def _on_checkpoint(patch: ConfigPatch, job: Job) -> Outcome:
    if job.model is None:
        return Refused(patch.file, "the checkpoint is a folder of its owner's and is not changed by us", f"repair its {patch.file} by hand")
    snapshot = snapshot_of(repo_folder(Path(job.hub_cache), job.model.repo), job.model.revision)
    return checkpoint.apply(patch, job.model.repo, snapshot)


def _fetched(repo: str, file: str, target: Path, env: Mapping[str, str]) -> tuple[str, bool] | None:
    got = child.run(child.argv("get", repo=repo, path=file, target=target, max_bytes=script.MOST_BYTES), env)
    return None if got.is_ok else (got.detail, got.may_pass)
