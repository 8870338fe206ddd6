"""Publications that cannot be used, and ones that come together."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pod.contract import Fetch
from pod.publication import DOMAIN

from tests.faults.campaign import Case, Group, Stage
from tests.faults.worlds import Followed, followed, following, kept, text_of, watched
from tests.unit.pod.manifests import with_launch
from tests.unit.pod.test_main_follow import PRIVATE, with_flags

OTHER_KEY = b"\x02" * 32


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Followed]:
    with followed(folder, watched(following("--worker"), boot_stall_s=8.0)) as world:
        yield world


def refused(stage: Stage[Followed], publish: Callable[[Followed], object], words: str) -> None:
    """It is said why, once; nothing changes; and the next sound publication is taken."""
    world = stage.world
    before, told = world.serves(), len(_said(world, words))
    with stage.clients(world.pod):
        stage.strike(lambda: publish(world))
        world.until(lambda s: words in s["notice"] + json.dumps(s["quarantined"]), f"{words!r} is said")
        stage.recovered("it is refused, and why is said")
        time.sleep(1.2)  # two more questions
        kept(stage, world, before)
        stage.expect(len(_said(world, words)) == told + 1, "it is told once")
        new = world.other()
        world.publish(new)
        world.takes_over(new)
    world.manifest = new


def _said(world: Followed, words: str) -> list[str]:
    return [line for line in (*world.lines("refused"), *world.lines("quarantine")) if words in line]


def gone_back(stage: Stage[Followed], flags: tuple[str, ...], words: str) -> None:
    """The engine was stopped for it, it did not serve, and the one before is back."""
    world = stage.world
    bad = with_flags(world.manifest, *flags)
    with stage.clients(world.pod, "told", "ended"):
        stage.strike(lambda: world.publish(bad))
        status = world.until(lambda s: any(q["manifest"] == bad.sha256() for q in s["quarantined"]) and s["state"] == "serving", "back")
        stage.recovered("the manifest before serves again")
    stage.expect(words in json.dumps(status["quarantined"]), f"the quarantine says {words!r}")
    stage.expect(status["engine"]["manifest"] == world.manifest.sha256(), "the manifest before is in force")


def two_in_a_row(stage: Stage[Followed]) -> None:
    """The second comes while the first one's engine starts; the third while the second's does not run yet. The last one wins."""
    world = stage.world
    first, second, third = (with_flags(world.manifest, "--slow-start", seconds) for seconds in ("2.0", "1.5", "1.0"))
    with stage.clients(world.pod, "told"):
        stage.strike(lambda: world.publish(first))
        world.until(lambda s: s["state"] == "reloading", "the first one's engine starts")
        world.publish(second)
        time.sleep(0.1)
        world.publish(third)
        world.takes_over(third)
        stage.recovered("the last one is in force")
    stage.expect(not [q for q in world.pod.status()["quarantined"] if q["manifest"] in {m.sha256() for m in (first, second, third)}], "none is quarantined")
    world.manifest = third


def _unknown_field(world: Followed) -> object:
    return world.publish_content(json.dumps({**world.other().to_json(), "surprise": 1}).encode())


def _wrong_shape(world: Followed) -> object:
    return world.publish_content(json.dumps({**world.other().to_json(), "engine": "vllm"}).encode())


def _newer(world: Followed) -> object:
    return world.publish_content(json.dumps({**world.other().to_json(), "schema_version": 99}).encode())


def _newer_publication(world: Followed) -> object:
    def newer(document: bytes) -> bytes:
        data = json.loads(document)
        content = {**data["publication"], "schema_version": 99}
        spelled = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        signature = Ed25519PrivateKey.from_private_bytes(PRIVATE).sign(DOMAIN + spelled).hex()
        return json.dumps({**data, "publication": content, "signature": signature}).encode()

    return world.publish_content(text_of(world.other()), change=newer)


def _unsigned(world: Followed) -> object:
    return world.publish_content(text_of(world.other()), change=lambda document: json.dumps({**json.loads(document), "key": None, "signature": None}).encode())


def _tampered(world: Followed) -> object:
    return world.publish_content(text_of(world.other()), change=lambda document: document.replace(b'"note": ""', b'"note": "x"'))


def _no_model(world: Followed) -> object:
    return world.publish(with_launch(world.manifest, fetch=(Fetch("model", "o/nothing", None, None),)))


def _needs_pod(world: Followed) -> object:
    return world.publish(dataclasses.replace(world.manifest, pod=dataclasses.replace(world.manifest.pod, image="another:1")))


def _case(name: str, publish: Callable[[Followed], object], words: str) -> Case[Followed]:
    play: Callable[[Stage[Followed]], None] = lambda stage: refused(stage, publish, words)  # noqa: E731
    return Case(name, play)


def groups() -> list[Group[Any]]:
    """The cases, in one world."""
    return [Group("Publications", "toy", _opened, [
        _case("truncated manifest", lambda w: w.publish_content(text_of(w.other())[:-200]), "JSON"),
        _case("manifest that is no JSON", lambda w: w.publish_content(b"serve: everything\n"), "JSON"),
        _case("manifest of a wrong shape", _wrong_shape, "engine"),
        _case("manifest with unknown fields", _unknown_field, "surprise"),
        _case("manifest of a newer schema", _newer, "later runtime"),
        _case("publication of a newer schema", _newer_publication, "reads up to"),
        _case("publication that is no JSON", lambda w: w.publish_content(text_of(w.other()), change=lambda document: b"{"), "not JSON"),
        _case("unsigned", _unsigned, "carries no signature"),
        _case("signed with another key", lambda w: w.publish_content(text_of(w.other()), key=OTHER_KEY), "trusts"),
        _case("wrong signature", _tampered, "does not match its signature"),
        _case("a model that does not exist", _no_model, "o/nothing"),
        _case("another image", _needs_pod, "new pod"),
        Case("engine that ends at once", lambda stage: gone_back(stage, ("--exit-at-start", "3"), "code 3")),
        Case("engine that never serves", lambda stage: gone_back(stage, ("--slow-start", "900"), "did not serve within")),
        Case("engine that answers nonsense", lambda stage: gone_back(stage, ("--answer", "gibberish"), "gibberish")),
        Case("three publishes while an engine starts", two_in_a_row),
    ], lambda world: world.pod)]  # fmt: skip
