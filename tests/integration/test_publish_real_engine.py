"""`podwright publish` and `rollback` to a whole runtime around a real vLLM on the CPU: a bridge reload, an engine restart, one that cannot
start and goes back, one that the engine's own parser refuses. Run with `-s` for the figures."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from pod.contract import Follow, Manifest

from compiler.deploy.clock import SystemClock
from compiler.deploy.signing import new_key, write_key
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from compiler.plan.core import EnvVar
from tests.hub_server import WRITER, Hub, hub_server
from tests.integration.test_pod_real_engine import ENGINE, manifest_for, message, model, pytestmark, serves
from tests.support import specset
from tests.unit.deploy.publish.conftest import Ended, Publisher
from tests.unit.pod.living import Pod, living
from tests.unit.pod.manifests import with_launch

__all__ = ("model", "pytestmark")


@dataclasses.dataclass
class Scene:
    """A pod around a real engine, the Hub that it follows, and who publishes to it."""

    pod: Pod
    hub: Hub
    publisher: Publisher

    def publish(self, manifest: Manifest | None = None, **orders: object) -> Ended:
        began = time.monotonic()
        ended = self.publisher(manifest, endpoints=(f"http://127.0.0.1:{self.pod.manifest.bridge.port}",), **orders)
        print(f"\n{ended.out}{ended.err}  in {time.monotonic() - began:.1f} s", flush=True)
        return ended


@pytest.fixture
def scene(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    key = new_key(datetime.date(2026, 1, 1))
    write_key(key, tmp_path / "signing.key")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    for name, value in {"PODWRIGHT_SIGNING_KEY": str(tmp_path / "signing.key"), "PODWRIGHT_API_KEY": "k3y-for-tests", "HF_TOKEN": WRITER}.items():
        monkeypatch.setenv(name, value)
    follow = Follow("me/pods", "tiny-cpu/publication.json", 1.0, "now", "KEYS", False)
    built = manifest_for(model)
    manifest = dataclasses.replace(built, supervisor=dataclasses.replace(built.supervisor, follow=follow))
    files = image_files(data_root())
    plan = compiled(specset("tiny-cpu"), files).plan
    published = dataclasses.replace(plan.publish, repo="me/pods", path="tiny-cpu/publication.json", poll_seconds=1.0, when="now")
    plan = dataclasses.replace(plan, publish=published, pod_env=(EnvVar("PODWRIGHT_PUBLIC_KEY", key.public_text),))
    folder = tmp_path / "pod"
    folder.mkdir()
    with hub_server() as hub:
        hub.create("me/pods")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        environ = {**hub.env(), "KEYS": key.public_text, "PODWRIGHT_API_KEY": "k3y-for-tests", "PATH": f"{ENGINE / 'bin'}:{os.environ['PATH']}", "VLLM_NO_USAGE_STATS": "1",
                   "HF_HOME": str(folder / "hf"), "VLLM_CACHE_ROOT": str(folder / "cache")}  # fmt: skip
        with living(folder, manifest, environ, str(ENGINE / "bin" / "python")) as pod:
            serves(pod)
            publisher = Publisher(plan, files, tmp_path / ".podwright", capsys)
            publisher.manifest = manifest
            publisher.clock = SystemClock()  # type: ignore[assignment]
            yield Scene(pod, hub, publisher)


def test_publishing_to_a_real_engine(scene: Scene) -> None:
    first = scene.pod.manifest
    reload = scene.publish(dataclasses.replace(first, bridge=dataclasses.replace(first.bridge, ping_s=9.0)), as_json=True)
    assert reload.code == 0 and reload.json["forecast"][0]["effect"] == "bridge reload" and reload.json["pods"][0]["end"] == "serving"
    engine = scene.pod.status()["engine_pid"]
    assert message(scene.pod)[0] == 200

    argv = list(first.engine.launch.argv)
    argv[argv.index("--max-num-seqs") + 1] = "8"
    restart = scene.publish(with_launch(scene.publisher.manifest or first, argv=tuple(argv)), as_json=True)
    assert restart.code == 0, restart.err
    (forecast,) = restart.json["forecast"]
    assert forecast["effect"] == "engine restart" and forecast["outage_source"] == "measured by this pod at its last start" and 1 < forecast["outage_s"] < 600
    assert scene.pod.status()["engine_pid"] != engine and message(scene.pod)[0] == 200
    good = scene.publisher.manifest

    refused = scene.publish(with_launch(first, argv=(*argv, "--no-such-option", "1")))
    assert refused.code == 4 and "DPL069" in refused.err and "no-such-option" in refused.out
    assert message(scene.pod)[0] == 200

    words = [word for word in argv if word not in ("--load-format", "dummy")]
    back = scene.publish(with_launch(first, argv=tuple(words)))
    assert back.code == 4 and "WENT BACK" in back.out and message(scene.pod)[0] == 200

    healed = scene.publisher.rollback(endpoints=(f"http://127.0.0.1:{first.bridge.port}",))
    assert healed.code == 0, healed.err
    assert good is not None and Manifest.from_bytes(scene.hub.read("me/pods", "tiny-cpu/manifest.json")) == good
