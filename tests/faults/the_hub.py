"""A Hub that fails in every way while something is published: the service goes on, and once the Hub is well, what was published comes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.campaign import Case, Group, Stage
from tests.faults.worlds import POLL_S, Followed, followed, kept

PUBLICATION, MANIFEST = r"publication\.json", r"manifest\.json"


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Followed]:
    with followed(folder) as world:
        first = world.other()
        world.publish(first)
        world.takes_over(first)
        world.manifest = first
        yield world


def broken(stage: Stage[Followed], said: str, kind: Any, on: str = ".", *, lasts_s: float = 2.0, **more: Any) -> None:
    """The Hub fails with a publish in it, for a while; then it is well again."""
    world = stage.world
    before, new = world.serves(), world.other()
    with stage.clients(world.pod):
        world.hub.fail(kind, on, **more)
        world.publish(new)
        status = world.until(lambda s: said in s["follow"] + s["notice"], f"{said!r} is said")
        stage.note(f"{status['follow']}; {status['notice']}")
        time.sleep(lasts_s)
        kept(stage, world, before)
        stage.strike(world.hub.clear)
        world.takes_over(new)
        stage.recovered("what was published is in force, after the Hub is well")
    stage.expect(world.serves()["engine_pid"] == before["engine_pid"], "the engine was not touched")
    world.manifest = new


def slow(stage: Stage[Followed]) -> None:
    """Every answer takes three seconds: it is waited for."""
    world = stage.world
    before, new = world.serves(), world.other()
    with stage.clients(world.pod):
        world.hub.fail("slow", seconds=3.0)
        stage.strike(lambda: world.publish(new))
        world.takes_over(new)
        stage.recovered("what was published is in force, through the slow Hub")
        world.hub.clear()
    stage.expect(world.serves()["engine_pid"] == before["engine_pid"], "the engine was not touched")
    world.manifest = new


def old_file(stage: Stage[Followed]) -> None:
    """The Hub answers with the publication before: it is refused, and the next one is taken."""
    world = stage.world
    before = world.serves()
    with stage.clients(world.pod):
        world.hub.fail("old", back=1)
        world.until(lambda s: "is in force" in s["notice"], "refused as old")
        kept(stage, world, before)
        world.hub.clear()
        new = world.other()
        stage.strike(lambda: world.publish(new))
        world.takes_over(new)
        stage.recovered("the next publication is in force")
    stage.expect(len([line for line in world.lines("refused") if "is in force" in line]) == 1, "it is told once")
    world.manifest = new


def case(name: str, said: str, kind: Any, on: str = ".", **more: Any) -> Case[Followed]:
    """One way to fail."""
    play: Callable[[Stage[Followed]], None] = lambda stage: broken(stage, said, kind, on, **more)  # noqa: E731
    return Case(name, play)


def groups() -> list[Group[Any]]:
    """The cases, in one world."""
    return [Group("The Hub", "toy", _opened, [
        case("down: connections end without a word", "network", "down"),
        Case("slow: 3 s an answer", slow),
        case("silent for 20 s", "timeout", "silent", PUBLICATION, seconds=20.0, times=2),
        case("answers 500", "500", "status", status=500),
        case("answers 429 with Retry-After", "429", "status", status=429, retry_after="2"),
        case("half a publication", "truncated", "half", PUBLICATION),
        case("half a manifest", "truncated", "half", MANIFEST),
        case("a login page instead of the file", "web page", "html", PUBLICATION, lasts_s=4 * POLL_S),
        Case("an old file", old_file),
    ], lambda world: world.pod, lambda world: world.hub.clear())]  # fmt: skip
