"""A profile's lock, from a Hub and a registry that speak HTTP."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.deploy.failures import LockNotWritten, NothingReached
from compiler.deploy.hub import HubClient
from compiler.deploy.lock import LockResult, lock_profile, lock_text, wanted, write_lock
from compiler.deploy.registry import RegistryClient
from compiler.load import SpecStore
from compiler.resolve import resolve_plan
from compiler.schema.lock import LockedRepo, LockSpec
from compiler.schema.model import EnginePatch
from compiler.schema.specset import SpecSet
from tests.support import SPECS, specset
from tests.unit.deploy.servers import Hub, Registry, Repo, digest_of, manifest, serving

TODAY = "2026-11-29"
OLD = "2026-10-01"
SHAS = {name: hashlib.sha1(name.encode()).hexdigest() for name in ("org/model", "org/draft", "org/tokenizer", "org/patches", "org/other")}
PATCH = b"print('patched')\n"


@dataclasses.dataclass
class World:
    """A Hub, a registry and a profile that names things on both."""

    hub: Hub
    registry: Registry
    specs: SpecSet
    said: list[str] = dataclasses.field(default_factory=list)

    @property
    def base(self) -> str:
        return f"{self.registry.address}/nvidia/cuda:13"

    @property
    def mine(self) -> str:
        return f"{self.registry.address}/me/pod:1"

    def lock(self, current: LockSpec | None = None, today: str = TODAY) -> LockResult:
        specs = dataclasses.replace(self.specs, lock=current or self.specs.lock)
        with RegistryClient(sleep=lambda s: None) as registry:
            return lock_profile(specs, HubClient(self.hub.url, sleep=lambda s: None), registry, today, self.said.append)

    def model(self, **changes: Any) -> None:
        self.specs = dataclasses.replace(self.specs, model=self.specs.model.model_copy(update=changes))

    def checkpoint(self, **changes: Any) -> None:
        self.model(checkpoint=self.specs.model.checkpoint.model_copy(update=changes))

    def pin_base(self, digest: str) -> None:
        images = tuple(image.model_copy(update={"digest": digest}) for image in self.specs.engine.images)
        self.specs = dataclasses.replace(self.specs, engine=self.specs.engine.model_copy(update={"images": images}))

    def patched(self, sha256: str | None) -> None:
        self.model(engine_patches=(EnginePatch(file="patch.py", repo="org/patches", sha256=sha256, releases=("0.27.1",), reason="It does not load."),))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # Nothing leaves this machine.
    hub, registry = Hub(), Registry()
    hub.repos = {name: Repo(sha, {"a.safetensors": 10, "config.json": 3}, {"patch.py": PATCH}) for name, sha in SHAS.items()}
    with serving(hub), serving(registry):
        registry.tags = {"nvidia/cuda:13": manifest(), "me/pod:1": manifest("mine")}
        changes: dict[str, dict[str, object]] = {
            "profile": {"speculation.draft.repo": "org/draft", "container.name": f"{registry.address}/me/pod:1"},
            "model": {"checkpoint.repo": "org/model", "checkpoint.revision": "__remove__", "tokenizer": {"repo": "org/tokenizer", "reason": "The other one fails."}},
        }
        specs = specset("ornith-2xa40-dspark", changes)
        images = tuple(image.model_copy(update={"image": f"{registry.address}/nvidia/cuda:13", "digest": None}) for image in specs.engine.images)
        specs = dataclasses.replace(specs, engine=specs.engine.model_copy(update={"images": images}), lock=LockSpec.model_validate({}))
        yield World(hub, registry, specs)


def kinds(result: LockResult) -> list[tuple[str, bool]]:
    return [(p.kind, p.incomplete) for p in result.problems]


def test_everything_that_has_a_commit_or_a_digest_is_locked(world: World) -> None:
    result = world.lock()
    assert result.complete
    assert result.problems == ()
    assert {name: repo.revision for name, repo in result.lock.repos.items()} == {n: SHAS[n] for n in ("org/model", "org/draft", "org/tokenizer")}
    assert result.lock.repos["org/model"].size == 13
    assert result.lock.repos["org/model"].safetensors == 10
    assert result.lock.images == {world.base: digest_of(manifest()), world.mine: digest_of(manifest("mine"))}
    assert result.lock.resolved == TODAY
    assert world.said == [f"asking for {n}" for n in ("org/model", "org/draft", "org/tokenizer", world.base, world.mine)]
    assert f"org/draft: not locked -> {SHAS['org/draft']}" in [str(c) for c in result.changes]


def test_the_written_lock_is_read_back_and_pins_the_plan(world: World, tmp_path: Path) -> None:
    result = world.lock()
    path = tmp_path / "specs" / "locks" / f"{world.specs.name}.yaml"
    assert write_lock(path, lock_text(result)) is True
    read, problems = SpecStore([tmp_path / "specs"]).lock(world.specs.name)
    assert problems == []
    assert read == result.lock
    again = world.lock(read, today="2027-01-01")
    assert again.changes == ()
    assert write_lock(path, lock_text(again)) is False
    assert lock_text(again).startswith("# yaml-language-server: $schema=../schemas/lock.schema.json\nkind: lock\nresolved: \"2026-11-29\"\n")


def test_members_of_a_swap_set_are_locked_too(world: World) -> None:
    other = dataclasses.replace(world.specs, model=world.specs.model.model_copy(update={"checkpoint": world.specs.model.checkpoint.model_copy(update={"repo": "org/other"})}))
    world.specs = dataclasses.replace(world.specs, swap=(other,))
    assert set(world.lock().lock.repos) == {"org/model", "org/draft", "org/tokenizer", "org/other"}


def test_the_lock_of_a_swap_set_pins_its_members_before_their_own_locks(tmp_path: Path) -> None:
    name = "ornith-qwen38-swap"
    member = specset(name).swap[0]
    repo = member.model.checkpoint.repo
    assert repo is not None
    own = LockSpec(resolved=OLD, repos={repo: LockedRepo(revision="a" * 40), "only/member": LockedRepo(revision="b" * 40)})
    write_lock(tmp_path / "locks" / f"{member.name}.yaml", lock_text(LockResult(member.name, own, (), ())))
    roots = [tmp_path, SPECS]
    assert specset(name, roots=roots).swap[0].lock == own
    swap = LockSpec(resolved=TODAY, repos={repo: LockedRepo(revision="c" * 40)})
    write_lock(tmp_path / "locks" / f"{name}.yaml", lock_text(LockResult(name, swap, (), ())))
    found = resolve_plan(specset(name, roots=roots)).swap
    assert found is not None
    assert found.members[0].model.revision == "c" * 40
    assert set(specset(name, roots=roots).swap[0].lock.repos) == {repo, "only/member"}


def test_speculation_that_is_off_needs_no_draft(world: World) -> None:
    speculation = world.specs.profile.speculation
    assert speculation is not None
    off = world.specs.profile.model_copy(update={"speculation": speculation.model_copy(update={"method": "off"})})
    assert "org/draft" not in wanted(dataclasses.replace(world.specs, profile=off)).repos


def test_images_that_exist_only_here_and_generated_models_are_not_asked_for(world: World) -> None:
    container = world.specs.profile.container.model_copy(update={"name": "podwright/mine:1"})
    specs = dataclasses.replace(world.specs, profile=world.specs.profile.model_copy(update={"container": container}))
    assert set(wanted(specs).images) == {world.base}
    tiny = wanted(specset("tiny-cpu"))
    assert tiny.repos == {}
    assert list(tiny.images) != []


def test_a_commit_in_the_spec_beats_the_branch(world: World) -> None:
    world.checkpoint(revision=SHAS["org/model"])
    assert world.lock().complete
    assert any(r.path.endswith(f"/revision/{SHAS['org/model']}") for r in world.hub.requests)
    world.checkpoint(revision="f" * 40)
    assert kinds(world.lock()) == [("not-found", True)]


def test_what_failed_keeps_its_old_entry_and_the_rest_is_new(world: World) -> None:
    old = LockSpec(resolved=OLD, repos={"org/draft": LockedRepo(revision="d" * 40, size=5), "org/gone": LockedRepo(revision="e" * 40)})
    del world.hub.repos["org/draft"]
    result = world.lock(old)
    assert not result.complete
    assert kinds(result) == [("not-found", True)]
    assert result.problems[0].why.endswith("The current lock's entry is kept.")
    assert result.lock.repos["org/draft"] == old.repos["org/draft"]
    assert result.lock.repos["org/model"].revision == SHAS["org/model"]
    assert "org/gone" not in result.lock.repos
    assert f"org/gone: {'e' * 40} -> no longer needed" in [str(c) for c in result.changes]


def test_one_unreachable_side_leaves_the_other(world: World) -> None:
    world.registry.answer = lambda r: None
    result = world.lock()
    assert kinds(result) == [("unreachable", True), ("unreachable", True)]
    assert set(result.lock.repos) == {"org/model", "org/draft", "org/tokenizer"}
    assert result.lock.images == {}


def test_when_nobody_is_reached_nothing_is_resolved(world: World) -> None:
    world.registry.answer = world.hub.answer = lambda r: None
    with pytest.raises(NothingReached) as first:
        world.lock()
    assert "No lock was written" in first.value.why
    world.hub.requests.clear()
    world.registry.requests.clear()
    with pytest.raises(NothingReached) as caught:
        world.lock(LockSpec(images={world.base: digest_of(manifest())}))
    text = caught.value.formatted()
    assert world.hub.address in text
    assert world.registry.address in text
    assert f"specs/locks/{world.specs.name}.yaml stays as it was" in text
    assert len(world.hub.requests) + len(world.registry.requests) == 2


def test_a_gated_repository_without_the_right_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.hub.repos["org/model"].gated, world.hub.allowed = "auto", "hf_" + "y" * 30
    first = world.lock()
    assert kinds(first) == [("gated", False), ("gated", False)]
    assert "may not download it" in first.problems[0].what
    assert "gated: true" in first.problems[1].fix
    monkeypatch.setenv("HF_TOKEN", world.hub.allowed)
    world.checkpoint(gated=True)
    assert world.lock().problems == ()


def test_a_renamed_repository(world: World) -> None:
    world.hub.repos["org/model"].name = "new-org/model"
    assert [p.fix for p in world.lock().problems] == ["Write new-org/model in the spec."]


def test_a_tag_that_was_pushed_again(world: World) -> None:
    current = world.lock().lock
    world.registry.tags = {"nvidia/cuda:13": manifest("again"), "me/pod:1": manifest("my next build")}
    result = world.lock(current)
    assert kinds(result) == [("moved-tag", False)], "one's own tag may move"
    assert result.lock.images[world.base] == digest_of(manifest("again"))
    assert [c.subject for c in result.changes] == sorted([world.base, world.mine])


def test_a_digest_in_the_engine_spec_stays(world: World) -> None:
    world.pin_base(digest_of(manifest()))
    assert world.lock().problems == ()
    world.registry.tags["nvidia/cuda:old"] = manifest()
    world.registry.tags["nvidia/cuda:13"] = manifest("again")
    result = world.lock()
    assert kinds(result) == [("moved-tag", False)]
    assert result.lock.images[world.base] == digest_of(manifest())
    del world.registry.tags["nvidia/cuda:13"]
    assert "now names nothing" in world.lock().problems[0].what
    del world.registry.tags["nvidia/cuda:old"]
    assert kinds(world.lock()) == [("not-found", True)], "the pinned digest itself is gone"


def test_an_image_of_ones_own_that_was_not_pushed_yet(world: World) -> None:
    del world.registry.tags["me/pod:1"]
    result = world.lock()
    assert kinds(result) == [("not-found", True)]
    assert "built and pushed first" in result.problems[0].fix


def test_engine_patches_are_compared_never_vouched_for(world: World) -> None:
    right = hashlib.sha256(PATCH).hexdigest()
    world.patched(right)
    assert world.lock().problems == ()
    world.patched(None)
    unread = world.lock()
    assert kinds(unread) == [("patch", True)]
    assert right in unread.problems[0].what
    assert SHAS["org/patches"][:12] in unread.problems[0].what
    world.patched("0" * 64)
    assert "no longer the file that was reviewed" in world.lock().problems[0].what
    assert "org/patches" not in unread.lock.repos


def test_a_result_as_json_says_what_is_missing(world: World) -> None:
    del world.hub.repos["org/draft"]
    data = world.lock().to_json()
    assert data["complete"] is False
    assert data["problems"][0]["subject"] == "org/draft"  # type: ignore[index]


shas = st.text("0123456789abcdef", min_size=40, max_size=40)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}/[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
sizes = st.none() | st.integers(1, 10**13)
repos = st.dictionaries(names, st.builds(lambda sha, size, part: LockedRepo(revision=sha, size=size, safetensors=part), shas, sizes, sizes), max_size=4)
images = st.dictionaries(st.from_regex(r"[a-z0-9]{1,8}/[a-z0-9]{1,8}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,9}", fullmatch=True), st.builds(lambda sha: f"sha256:{sha}{sha[:24]}", shas), max_size=4)


@settings(max_examples=40)  # Each writes and reads a file.
@given(repos, images, st.none() | st.just(TODAY))
def test_any_lock_reads_back_as_itself(tmp_path_factory: pytest.TempPathFactory, repos: Any, images: Any, resolved: str | None) -> None:
    lock = LockSpec(resolved=resolved, repos=repos, images=images)
    text = lock_text(LockResult("p", lock, (), ()))
    reverse = LockSpec(resolved=resolved, repos=dict(reversed(repos.items())), images=dict(reversed(images.items())))
    assert lock_text(LockResult("p", reverse, (), ())) == text
    root = tmp_path_factory.mktemp("specs")
    write_lock(root / "locks" / "p.yaml", text)
    assert SpecStore([root]).lock("p") == (lock, [])


def test_a_lock_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locks" / "p.yaml"
    write_lock(path, "old\n")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LockNotWritten, match="No space left on device"):
        write_lock(path, "new\n")
    assert path.read_text() == "old\n"
    assert [f.name for f in path.parent.iterdir()] == ["p.yaml"]


def test_an_interrupted_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.yaml"
    write_lock(path, "old\n")

    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_lock(path, "new\n")
    assert (path.read_text(), [f.name for f in tmp_path.iterdir()]) == ("old\n", ["p.yaml"])


def test_odd_places_for_a_lock(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LockNotWritten):
        write_lock(tmp_path / "folder", "x\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(LockNotWritten):
        write_lock(tmp_path / "file" / "p.yaml", "x\n")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(LockNotWritten):
        write_lock(loop, "x\n")
    link, real = tmp_path / "link", tmp_path / "real"
    real.write_text("old\n")
    real.chmod(0o600)
    link.symlink_to(real)
    assert write_lock(link, "new\n") is True
    assert link.is_symlink()
    assert real.read_text() == "new\n"
    assert real.stat().st_mode & 0o777 == 0o600
