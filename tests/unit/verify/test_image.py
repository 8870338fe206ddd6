"""The release in an image, with a stand-in for the Docker engine's client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound, NotFound
from requests.exceptions import ReadTimeout

from compiler.deploy.failures import DockerUnavailable
from compiler.resolve import resolve_plan
from compiler.verify import image
from compiler.verify.asking import NoAnswer
from compiler.verify.environment import NoEngine
from compiler.verify.image import ImageEngine, candidates, image_answers, image_at_hand, image_engine
from tests.cli.command import podwright
from tests.support import ROOT, specset
from tests.unit.verify.recorded import recorded_row

SPECS = specset("nemotron-ada")
PLAN = resolve_plan(SPECS)
PUBLIC = "vllm/vllm-openai:v0.27.1"
CARD = {"name": "a card", "capability": "8.9"}


class Client:
    """A Docker engine with some images, whose containers end as they are told to; it notes what it is asked for."""

    def __init__(self, *names: str, code: int = 0, out: str = "", err: str = "", fault: BaseException | None = None) -> None:
        self.names, self.code, self.out, self.err, self.fault = names, code, out, err, fault
        self.made: dict[str, Any] = {}
        self.running: set[str] = set()
        self.seen: dict[str, str] = {}
        self.closed = 0

    def inspect_image(self, name: str) -> dict[str, str]:
        if name not in self.names:
            raise ImageNotFound(name)
        return {"Id": f"sha256:{name}"}

    def create_host_config(self, **settings: Any) -> dict[str, Any]:
        return settings

    def create_container_config(self, image: str, command: list[str], **settings: Any) -> dict[str, Any]:
        return {"image": image, "command": command, **settings}

    def create_container_from_config(self, settings: dict[str, Any], name: str) -> None:
        self.made = settings
        self.running.add(name)

    def start(self, name: str) -> None:
        folder = Path(self.made["host_config"]["Mounts"][0]["Source"])
        self.seen = {path.relative_to(folder).as_posix(): f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}
        self.jobs = json.loads((folder / "judge" / "jobs.json").read_text())

    def wait(self, name: str, timeout: float) -> dict[str, int]:
        if self.fault is not None:
            raise self.fault
        return {"StatusCode": self.code}

    def logs(self, name: str, *, stdout: bool, stderr: bool) -> bytes:
        return (self.out if stdout else self.err).encode()

    def remove_container(self, name: str, *, force: bool, v: bool) -> None:
        assert force and v
        if name not in self.running:
            raise NotFound(name)
        self.running.discard(name)

    def close(self) -> None:
        self.closed += 1


def use(monkeypatch: pytest.MonkeyPatch, client: Client) -> Client:
    monkeypatch.setattr(image, "engine_client", lambda *timeout: client)
    return client


def asked(tmp_path: Path, jobs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    (tmp_path / "nemotron-ada").mkdir(mode=0o700)
    return image_answers(ImageEngine("own:1", "sha256:1"), "0.27.1", CARD, jobs or [{"id": "one"}], ROOT, tmp_path)


def test_the_profiles_own_image_comes_before_the_releases() -> None:
    assert candidates(PLAN, SPECS.engine) == ["podwright/nemotron-ada:0.27.1", PUBLIC]


@pytest.mark.parametrize("names", [("podwright/nemotron-ada:0.27.1", PUBLIC), (PUBLIC,)])
def test_the_first_image_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    client = use(monkeypatch, Client(*names))
    assert image_engine("profile", PLAN, SPECS.engine) == ImageEngine(names[0], f"sha256:{names[0]}")
    assert image_at_hand(PLAN, SPECS.engine) == ImageEngine(names[0], f"sha256:{names[0]}")
    assert client.closed == 2


def test_an_image_that_is_not_there_is_told_with_the_ways_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Client())
    with pytest.raises(NoEngine, match=r"holds none of podwright/nemotron-ada:0\.27\.1, vllm/vllm-openai:v0\.27\.1") as caught:
        image_engine("profile", PLAN, SPECS.engine)
    assert "`podwright image nemotron-ada`" in caught.value.fix and f"`docker pull {PUBLIC}`" in caught.value.fix
    with pytest.raises(NoEngine, match="holds no image mine:2") as caught:
        image_engine("mine:2", PLAN, SPECS.engine)
    assert "`docker pull mine:2`" in caught.value.fix
    assert image_at_hand(PLAN, SPECS.engine) is None


def test_without_an_engine_nothing_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*timeout: int) -> Client:
        raise DockerUnavailable("no Docker engine answers", "", "")

    monkeypatch.setattr(image, "engine_client", none)
    assert image_at_hand(PLAN, SPECS.engine) is None
    with pytest.raises(DockerUnavailable):
        image_engine("profile", PLAN, SPECS.engine)


def test_the_container_can_reach_and_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = use(monkeypatch, Client(out=json.dumps(recorded_row("nemotron-ada") | {"id": "one"}) + "\nnoise\n"))
    assert asked(tmp_path)["one"].accepted
    host = client.made["host_config"]
    assert (host["network_mode"], host["read_only"], host["cap_drop"]) == ("none", True, ["ALL"])
    assert host["security_opt"] == ["no-new-privileges"]
    assert host["Mounts"] == [{"Type": "bind", "Source": str(tmp_path), "Target": "/podwright", "ReadOnly": True}]
    assert client.made["image"] == "sha256:1" and client.made["entrypoint"] == ["bash"]
    assert client.made["command"][:2] == ["/podwright/judge/in_image.sh", "0.27.1"]
    assert json.loads(client.made["environment"]["PODWRIGHT_CARD"]) == CARD
    assert not {"HF_TOKEN", "PATH"} & client.made["environment"].keys()
    assert client.running == set() and client.jobs == [{"id": "one"}]


def test_the_mounted_folder_can_be_read_by_any_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = use(monkeypatch, Client(out=json.dumps(recorded_row("nemotron-ada") | {"id": "one"})))
    asked(tmp_path)
    assert client.seen["nemotron-ada"] == "755" and client.seen["judge/jobs.json"] == "644"
    assert {"judge/judge.py", "judge/stand_in.py", "judge/in_image.sh", "judge/find-engine.sh"} <= client.seen.keys()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (3, NoEngine, "the image own:1 has no vllm 0.27.1"), (4, NoEngine, "has no C compiler"),
        (124, NoAnswer, r"no answer in \d+ s"), (137, NoAnswer, "want of memory"),
        (1, NoAnswer, "ended with code 1 before it answered"),
    ],
)  # fmt: skip
def test_how_a_container_ends_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, kind: type[NoEngine], said: str) -> None:
    client = use(monkeypatch, Client(code=code, err="first\nits last words\n"))
    with pytest.raises(kind, match=said) as caught:
        asked(tmp_path)
    assert "its last words" in caught.value.why and client.running == set()


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, None), (ReadTimeout("read timed out"), NoAnswer, "read timed out"),
        (APIError("400", explanation="invalid mount config: bind source path does not exist: /tmp/x"), NoAnswer, "bind source path"),
    ],
)  # fmt: skip
def test_whatever_ends_it_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: BaseException, kind: type[BaseException], said: str | None
) -> None:
    client = use(monkeypatch, Client(fault=fault))
    with pytest.raises(kind, match=said) as caught:
        asked(tmp_path)
    assert client.running == set() and client.closed == 1
    if said == "bind source path":
        assert isinstance(caught.value, NoAnswer) and "on this machine" in caught.value.fix


@pytest.mark.living
def test_the_command_asks_the_image_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, Client("own:1", out=json.dumps(recorded_row("nemotron-ada"))))
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-image", "own:1", "--json")
    found = json.loads(ended.out)
    assert ended.code == 0 and found["asked"] == {"image": "own:1", "id": "sha256:own:1"}
    assert client.jobs[0]["model"] == "/podwright/nemotron-ada/model" and "nemotron-ada/model/config.json" in client.seen


@pytest.mark.living
def test_an_image_at_hand_is_asked_before_an_environment_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, Client(PUBLIC, out=json.dumps(recorded_row("nemotron-ada"))))
    monkeypatch.setenv("PODWRIGHT_REAL_PARTS_DIR", str(tmp_path))
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts")
    assert ended.code == 0 and f"asking vLLM 0.27.1 of {PUBLIC} about nemotron-ada" in ended.err


@pytest.mark.living
def test_a_python_and_an_image_are_wrong_usage(tmp_path: Path) -> None:
    ended = podwright("verify", "nemotron-ada", "--engine-image", "own:1", "--engine-python", tmp_path / "python")
    assert ended.code == 2 and "--engine-image" in ended.err
