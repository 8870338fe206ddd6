"""Builds through the Docker engine's API, against an engine that is played over HTTP. The real one is in tests/integration."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.deploy.failures import DockerUnavailable, ImageNotBuilt, StepFailed
from compiler.deploy.image import LARGE_LAYER_BYTES, TAIL_LINES, BuildEvent, BuiltImage, _Watch, build_image
from compiler.plan.core import Plan
from tests.unit.deploy.servers import Reply, Request, Server, json_reply, serving
from tests.unit.render.plans import example_image, example_plan

ID = "sha256:" + "1" * 64
BASE = example_image().base_reference
STEPS: list[dict[str, object]] = [
    {"stream": "Step 1/2 : FROM base"}, {"stream": "\n"}, {"status": "Pulling from library/base", "id": "13"},
    {"status": "Downloading", "id": "aa", "progress": "1/9"}, {"status": "Downloading", "id": "aa", "progress": "2/9"}, {"status": "Pull complete", "id": "aa"},
    {"stream": " ---> 0123\n"}, {"stream": "Step 2/2 : RUN  echo \\\n  hi"}, {"stream": "\n"}, {"stream": "h"}, {"stream": "i\n10%\r50%\r\x1b[32m100%\x1b[0m\n"},
]  # fmt: skip
DONE: list[dict[str, object]] = [{"aux": {"ID": ID}}, {"stream": "Successfully built 1111\n"}]


class Engine(Server):
    """The four questions of a build. `messages` is its stream; a `whole` one ends as HTTP says a stream must."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.messages = STEPS + DONE
        self.whole = True
        self.history: list[dict[str, object]] = [
            {"CreatedBy": "/bin/sh -c #(nop)  CMD [\"sh\"]", "Size": 0}, {"CreatedBy": "/bin/bash -o pipefail -c echo   hi", "Size": 7},
            {"CreatedBy": "/bin/sh -c #(nop) COPY dir:1 in /x ", "Size": 3}, {"CreatedBy": None, "Size": 100},
        ]  # fmt: skip

    def _answer(self, request: Request) -> Reply:
        if request.path == "/version":
            return json_reply({"ApiVersion": "1.41", "Version": "20.10.24"})
        if request.path == "/v1.41/build":
            body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in (json.dumps(m).encode() + b"\r\n" for m in self.messages))
            return Reply(200, body + (b"0\r\n\r\n" if self.whole else b"5\r\nab"), {"Transfer-Encoding": "chunked", "Connection": "close"})
        return json_reply(self.history if request.path.endswith("/history") else {"Id": ID, "Size": 110})

    @property
    def build(self) -> Request:
        return next(r for r in self.requests if r.path == "/v1.41/build")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engine]:
    with serving(Engine()) as server:
        assert isinstance(server, Engine)
        for name in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker-config"))
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{server.address}")
        yield server


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    (folder / "image").mkdir(parents=True)
    (folder / "Dockerfile").write_text(f"# A pod.\nFROM {BASE}\nCOPY image/ /x\n")
    (folder / ".dockerignore").write_text("*\n!image\n")
    (folder / "image" / "kept.txt").write_text("kept")
    (folder / "plan.json").write_text("{}")
    return folder


def built(bundle: Path, **options: object) -> tuple[BuiltImage, list[BuildEvent]]:
    events: list[BuildEvent] = []
    return build_image(example_plan(), bundle, on_event=events.append, **options), events  # type: ignore[arg-type]


def failure(bundle: Path, plan: Plan | None = None, **options: object) -> ImageNotBuilt:
    with pytest.raises(ImageNotBuilt) as caught:
        build_image(plan or example_plan(), bundle, **options)  # type: ignore[arg-type]
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def sent_files(engine: Engine) -> dict[str, str]:
    """The build context as the engine got it: text by path."""
    with tarfile.open(fileobj=io.BytesIO(engine.build.body)) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: stream.read().decode() for name, stream in files.items() if stream}


def test_steps_output_and_result(engine: Engine, bundle: Path) -> None:
    image, events = built(bundle)
    assert (image.id, image.tag, image.size_bytes) == (ID, "registry.example/pods/vllm:0.27.1", 110)
    assert image.seconds > 0
    assert [(layer.created_by, layer.size_bytes) for layer in image.layers] == [("", 100), ("COPY dir:1 in /x", 3), ("RUN echo hi", 7), ('CMD ["sh"]', 0)]
    assert [(e.step, e.steps, e.text) for e in events if e.kind == "step"] == [(1, 2, "FROM base"), (2, 2, "RUN echo \\ hi")]
    assert [e.text for e in events if e.kind == "download"] == ["13: Pulling from library/base", "aa: Downloading", "aa: Pull complete"]
    assert [e.text for e in events if e.kind == "output"] == [" ---> 0123", "hi", "100%", "Successfully built 1111"]
    assert image.to_json()["warnings"] == ()


def test_what_the_engine_is_asked_for(engine: Engine, bundle: Path) -> None:
    built(bundle, tag="me/tiny:1", network="host", platform="linux/arm64")
    query = {name: values[0] for name, values in engine.build.query.items()}
    assert (query["t"], query["networkmode"], query["platform"], query["rm"], query["forcerm"]) == ("me/tiny:1", "host", "linux/arm64", "True", "True")
    sent = sent_files(engine)
    assert sent["image/kept.txt"] == "kept"
    assert "Dockerfile" in sent
    assert "plan.json" not in sent


def test_another_base_changes_the_line_that_is_sent_and_nothing_on_disk(engine: Engine, bundle: Path) -> None:
    before = (bundle / "Dockerfile").read_text()
    built(bundle, base_override="mirror.example/base:1")
    assert sent_files(engine)[engine.build.query["dockerfile"][0]] == before.replace(BASE, "mirror.example/base:1")
    assert (bundle / "Dockerfile").read_text() == before
    (bundle / "Dockerfile").write_text(f"FROM {BASE}-other\n")
    assert "does not start from" in failure(bundle, base_override="x:1").what


def test_a_layer_that_pulls_slowly_is_named(engine: Engine, bundle: Path) -> None:
    engine.history[1]["Size"] = 18_000_000_000
    engine.history[2]["Size"] = LARGE_LAYER_BYTES
    image, events = built(bundle)
    assert [e.text for e in events if e.kind == "warning"] == list(image.warnings)
    assert len(image.warnings) == 1
    assert image.warnings[0].startswith("one layer has 18.0 GB: RUN echo hi.")


@pytest.mark.parametrize(
    ("message", "output", "hint"),
    [
        ("The command '/bin/sh -c pip' returned a non-zero code: 137", "", "more memory"),
        ("The command '/bin/sh -c pip' returned a non-zero code: 1", "OSError: No space left on device", "docker system df"),
        ("The command '/bin/sh -c apt' returned a non-zero code: 100", "Temporary failure resolving 'deb.debian.org'", "--network host"),
        ("The command '/bin/sh -c pip' returned a non-zero code: 1", "SSL: CERTIFICATE_VERIFY_FAILED", "certificate"),
        ("pull access denied for nvidia/cuda, repository does not exist", "", "docker login"),
        ("COPY failed: file not found in build context", "", "podwright build"),
        ("something else", "", "last lines"),
    ],
)
def test_a_failed_step_says_which_why_and_what_to_do(engine: Engine, bundle: Path, message: str, output: str, hint: str) -> None:
    engine.messages = [*STEPS, {"stream": f"{output}\n"}, {"errorDetail": {"code": 1, "message": message}, "error": message}]
    caught = failure(bundle)
    assert isinstance(caught, StepFailed)
    assert (caught.step, caught.steps) == (2, 2)
    assert caught.what == "step 2 of 2 failed: RUN echo \\ hi"
    assert hint in caught.fix
    assert caught.tail[:2] == ("hi", "100%")
    assert output in caught.why
    assert caught.to_json()["step"] == 2


def test_only_the_last_lines_of_the_failing_step_are_shown(engine: Engine, bundle: Path) -> None:
    engine.messages = [*STEPS, *({"stream": f"line {n}\n"} for n in range(100)), {"stream": "no newline"}, {"error": "returned a non-zero code: 2"}]
    caught = failure(bundle)
    assert isinstance(caught, StepFailed)
    assert len(caught.tail) == TAIL_LINES
    assert caught.tail[-2:] == ("line 99", "no newline")
    assert "exit code 2" in caught.why


def test_a_stream_that_ends_without_an_image(engine: Engine, bundle: Path) -> None:
    engine.messages = STEPS
    assert "without an image" in failure(bundle).why
    engine.messages = []
    assert "before its first step" in failure(bundle).what


def test_an_engine_that_goes_away_in_the_middle(engine: Engine, bundle: Path) -> None:
    engine.whole = False
    assert failure(bundle).what == "the build broke off"


def test_a_build_that_the_engine_refuses(engine: Engine, bundle: Path) -> None:
    engine.first = [json_reply({"ApiVersion": "1.41"}), json_reply({"message": "dockerfile parse error line 2: unknown instruction: CPY"}, 400)]
    caught = failure(bundle)
    assert caught.what == "the Docker engine refuses the build"
    assert "unknown instruction" in caught.why


def test_a_tag_that_is_none(engine: Engine, bundle: Path) -> None:
    assert "invalid" in failure(bundle, tag="NOT A TAG").why


def test_there_must_be_something_to_build(bundle: Path, tmp_path: Path) -> None:
    assert "make build PROFILE=" in failure(tmp_path / "nowhere").fix
    assert "bakes no image" in failure(bundle, example_plan(image=example_image(prebaked=False))).what


@pytest.mark.parametrize(
    ("host", "hint"),
    [("unix:///nowhere/docker.sock", "Install and start Docker"), ("tcp://127.0.0.1:9", "look at DOCKER_HOST"), ("nonsense://x", "look at DOCKER_HOST"), ("tcp://127.0.0.1:notaport", "look at DOCKER_HOST")],
)
def test_without_an_engine_everything_else_still_works(bundle: Path, monkeypatch: pytest.MonkeyPatch, host: str, hint: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(DockerUnavailable) as caught:
        build_image(example_plan(), bundle)
    assert host in caught.value.what
    assert "`make build` does all the rest" in caught.value.why
    assert hint in caught.value.fix


def test_a_server_that_is_no_docker_engine(engine: Engine, bundle: Path) -> None:
    engine.answer = lambda r: Reply(200, b"<html>")
    with pytest.raises(DockerUnavailable):
        build_image(example_plan(), bundle)


def test_ctrl_c_goes_through_and_closes_the_connection(engine: Engine, bundle: Path) -> None:
    def stop(event: BuildEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_image(example_plan(), bundle, on_event=stop)


@given(st.lists(st.text("ab\n\r\x1b[0m Step1/2:", max_size=12), max_size=8))
def test_output_does_not_depend_on_how_it_is_cut(pieces: list[str]) -> None:
    def lines(parts: list[str]) -> list[str]:
        events: list[BuildEvent] = []
        watch = _Watch(events.append)
        for part in [*parts, "\n"]:
            watch.feed({"stream": part})
        return [e.text for e in events]

    whole = "".join(pieces)
    assert lines(pieces) == lines([whole]) == lines(list(whole))
    assert not any(ord(c) < 32 for line in lines(pieces) for c in line if c != "\t")


@given(st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda inner: st.dictionaries(st.sampled_from(["stream", "status", "id", "aux", "ID", "error", "errorDetail", "message"]), inner, max_size=4), max_leaves=8))
def test_no_message_of_an_engine_breaks_the_reader(message: object) -> None:
    watch = _Watch(lambda event: None)
    try:
        watch.feed(message if isinstance(message, dict) else {"stream": message})
        watch.image_id()
    except StepFailed as caught:
        assert caught.what
