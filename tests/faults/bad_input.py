"""A pod that is given something that cannot be used: it says why, stays open, and is healed where that is possible."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pod.contract import Fetch, Secret

from tests.faults.campaign import PATIENCE_S, Case, Group, Stage
from tests.faults.clients import waited
from tests.faults.worlds import environ_of, followed, followed_on, following, hub
from tests.unit.pod.living import Pod
from tests.unit.pod.manifests import with_launch


@contextlib.contextmanager
def _nothing(folder: Path) -> Iterator[Path]:
    yield folder


def unusable(stage: Stage[Path], spoil: Callable[[bytes], bytes], words: str) -> None:
    """The container stays open, with the reason in its log, until it is told to end."""
    pod = Pod(stage.folder, following())
    pod.file.write_bytes(spoil(pod.file.read_bytes()))
    stage.strike(pod.start)
    assert pod.process is not None
    try:
        waited(lambda: "stays open" in pod.log.read_text(), PATIENCE_S, "it says that it stays open")
        stage.recovered("it says why and stays open")
        stage.expect(words in pod.log.read_text(), f"it says {words!r}")
        stage.expect(pod.process.poll() is None, "the container is open")
        stage.expect(pod.end() == 0 and pod.left() == set(), "it ends with 0 and leaves nothing")
    finally:
        pod.process.kill()


def fatal(stage: Stage[Path], code: str, words: str, environ: dict[str, str], **launch: Any) -> None:
    """A fatal state with its cause; clients are told; a publication heals it where `launch` was the fault."""
    good = following()
    given = with_launch(good, **launch) if launch else good
    if "secret" in code:
        given = dataclasses.replace(given, supervisor=dataclasses.replace(given.supervisor, secrets=(Secret("A_SECRET", True, "somebody"),)))
    with hub() as server:
        server.create("o/private", private=True)
        server.commit("o/private", {"config.json": b"{}", "model.bin": b"w"})
        with followed_on(server, stage.folder, given, environ, serves=False) as world:
            stage.strike(lambda: None)
            status = world.until(lambda s: s["state"] == "fatal", "fatal")
            stage.expect(status["fatal"]["code"] == code, f"the code is {code}, and not {status['fatal']['code']}")
            stage.expect(words in status["fatal"]["cause"], f"the cause says {words!r}: {status['fatal']['cause']}")
            waited(lambda: _answers(world.pod), PATIENCE_S, "the bridge answers")
            answer = world.pod.complete()
            stage.result.clients = f"{answer[0]} with the reason"
            stage.expect(answer[0] == 529 and words in json.dumps(answer[1]), "clients are told why")
            if not launch:
                stage.recovered("it says why and stays open")
                return
            stage.strike(lambda: world.publish(good))
            world.takes_over(good)
            stage.recovered("a fixed publication serves")


def _answers(pod: Pod) -> bool:
    with contextlib.suppress(OSError):
        return bool(pod.complete()[0])
    return False


def unwritable_state(stage: Stage[Path]) -> None:
    """It works in a temporary folder and says so."""
    (stage.folder / "file").write_text("")
    with followed(stage.folder, environ={"PODWRIGHT_STATE_DIR": str(stage.folder / "file" / "state")}, serves=False) as world:
        stage.strike(lambda: None)
        status = world.serves()
        stage.recovered("it serves")
        stage.expect("cannot be written" in status["state_folder_problem"], "status says so")
        stage.expect(any("cannot be written" in line for line in world.lines("state")), "the journal says so")
        with stage.clients(world.pod):
            pass
        stage.expect(world.pod.end() == 0, "it ends with 0")


def no_token_to_follow(stage: Stage[Path]) -> None:
    """The repository of publications is private and the pod has no token: it serves, says so, and goes on asking."""
    with hub() as server:
        server.create("me/closed", private=True)
        manifest = following()
        closed = dataclasses.replace(manifest.supervisor.follow, repo="me/closed")  # type: ignore[type-var]
        manifest = following(base=manifest, follow=closed)
        with followed_on(server, stage.folder, manifest, environ_of(server, stage.folder) | server.env(None) | {"HF_TOKEN": ""}) as world:
            with stage.clients(world.pod):
                stage.strike(lambda: None)
                status = world.until(lambda s: s["follow"] not in ("not asked yet", "nothing new"), "said")
                stage.recovered("it says that it cannot follow")
            stage.note(status["follow"])
            stage.expect("token" in status["follow"] or "HF_TOKEN" in status["follow"], f"it names the token: {status['follow']}")
            stage.expect(status["state"] == "serving", "it serves")


def groups() -> list[Group[Any]]:
    """The cases, each with a pod of its own."""
    no_token = {"HF_TOKEN": "", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}

    def spoilt(name: str, spoil: Callable[[bytes], bytes], words: str) -> Case[Path]:
        return Case(name, lambda stage: unusable(stage, spoil, words))

    return [Group("Bad input at the start", "toy", _nothing, [
        spoilt("truncated manifest", lambda data: data[:-50], "JSON"),
        spoilt("manifest that is no JSON", lambda data: b"serve: everything\n", "JSON"),
        spoilt("manifest of a newer schema", lambda data: json.dumps({**json.loads(data), "schema_version": 99}).encode(), "newer image"),
        spoilt("manifest with unknown fields", lambda data: json.dumps({**json.loads(data), "surprise": 1}).encode(), "surprise"),
        spoilt("manifest of a wrong shape", lambda data: json.dumps({**json.loads(data), "engine": 7}).encode(), "engine"),
        spoilt("empty manifest", lambda data: b"", "JSON"),
        Case("state folder that cannot be written", unwritable_state),
        Case("missing secret", lambda stage: fatal(stage, "secret", "A_SECRET", {})),
        Case("lever with a wrong value", lambda stage: fatal(stage, "lever", "VL_SEQS", {"VL_SEQS": "many"})),
        Case("model that does not exist", lambda stage: fatal(stage, "not-found", "o/nothing", {}, fetch=(Fetch("model", "o/nothing", None, None),))),
        Case("missing token for the model", lambda stage: fatal(stage, "not-found", "o/private", no_token, fetch=(Fetch("model", "o/private", None, None),))),
        Case("missing token for the publications", no_token_to_follow),
        Case("program that does not exist", lambda stage: fatal(stage, "no-program", "no-such-program", {}, argv=("no-such-program-here",))),
    ])]  # fmt: skip


