"""Single files to and from the Hub: the compile cache, the journal, patches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.hub import child

from tests.hub_server import READER, WRITER, Hub, hub_server
from tests.unit.pod.hub.transfers import env_of, safetensors, transferred

pytestmark = pytest.mark.living

REPO = "owner/cache"
PATH = "compile-0123.tar.gz"
LARGE = 12 << 20


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create(REPO, kind="dataset", private=True)
        yield server


def command(name: str, **options: Any) -> list[str]:
    return child.argv(name, **{"repo": REPO, "path": PATH, "type": "dataset", **options})


def test_a_file_goes_up_and_comes_down_as_it_was(hub: Hub, tmp_path: Path) -> None:
    content = safetensors(LARGE)
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(content)
    assert transferred(command("exists"), env_of(hub, WRITER)).outcome.facts["exists"] is False
    up = transferred(command("upload", source=source, message="one"), env_of(hub, WRITER))
    assert up.outcome.is_ok and up.outcome.facts["commit"] == hub.store.repo(REPO, "dataset").head.oid, up.text
    assert transferred(command("exists"), env_of(hub, WRITER)).outcome.facts["exists"] is True
    down = transferred(command("get", target=target), env_of(hub, WRITER))
    assert down.outcome.is_ok and target.read_bytes() == content, down.text
    assert [file.name for file in target.parent.iterdir()] == ["target"] and not target.is_symlink()


def test_a_repository_is_made_private_when_asked_to(hub: Hub, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("text")
    fresh = command("upload", source=source, repo="owner/new")
    assert transferred(fresh, env_of(hub, WRITER)).outcome.kind == "not-found"
    assert transferred([*fresh, "--create"], env_of(hub, WRITER)).outcome.is_ok
    assert hub.store.repo("owner/new", "dataset").private
    assert transferred([*fresh, "--create"], env_of(hub, WRITER)).outcome.is_ok, "and a second time"


def test_a_token_without_the_right_to_write(hub: Hub, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("text")
    outcome = transferred(command("upload", source=source), env_of(hub, READER)).outcome
    assert outcome.kind == "bad-token" and "may not write" in outcome.detail and READER not in str(outcome)


@pytest.mark.parametrize("name", ["get", "exists"])
def test_a_hub_that_is_gone(tmp_path: Path, name: str) -> None:
    with hub_server() as gone:
        env = env_of(gone, WRITER)
    extra: dict[str, Path] = {"target": tmp_path / "t"} if name == "get" else {}
    done = transferred(command(name, **extra), env, timeout=120)
    assert done.outcome.kind == "offline" and done.outcome.may_pass, done.text


def test_a_file_that_is_not_there_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    outcome = transferred(command("get", target=tmp_path / "target"), env_of(hub, WRITER)).outcome
    assert outcome.kind == "not-found" and not list(tmp_path.iterdir())
    assert transferred(command("exists", repo="owner/none"), env_of(hub, WRITER)).outcome.facts["exists"] is False


def test_a_file_that_is_too_large_is_not_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {PATH: b"x" * 1000}, kind="dataset")
    outcome = transferred(command("get", target=tmp_path / "target", max_bytes=999), env_of(hub, WRITER)).outcome
    assert outcome.kind == "too-big" and not hub.asked("GET") and not list(tmp_path.iterdir())
    assert transferred(command("get", target=tmp_path / "target", max_bytes=1000), env_of(hub, WRITER)).outcome.is_ok


def test_a_full_disk_leaves_the_old_file(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {PATH: safetensors(LARGE)}, kind="dataset")
    target = tmp_path / "target"
    target.write_text("old")
    outcome = transferred(command("get", target=target), env_of(hub, WRITER), limit="ulimit -f 4000").outcome
    assert outcome.kind == "no-room" and target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_a_child_that_is_killed_or_cannot_start() -> None:
    assert child.run(["bash", "-c", "kill -9 $$"], {}).detail == "the transfer was ended by signal 9: no message"
    broken = child.run(["bash", "-c", "echo 'ModuleNotFoundError: x' >&2; exit 1"], {})
    assert broken.kind == "error" and broken.may_pass and broken.detail.endswith("ended with code 1: ModuleNotFoundError: x")


@pytest.mark.parametrize("line", ["", "text", "[]", "{}", '{"event": "result"}', '{"event": "progress", "done_bytes": "x"}', "\x00", "7"])
def test_other_lines_say_nothing(line: str) -> None:
    assert child.parsed(line) is None
