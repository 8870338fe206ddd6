"""Everything on one machine: the emitted image with the real engine in a real Docker engine, published to, connected to by the real Claude Code.

One pod lives through all of it, as a person's would: deploy, a change of the bridge, one of the engine, one that cannot start, a client, its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.publish.pods import PodClient, Report
from tests.hub_server import Hub, hub_server
from tests.integration.desk import ENGINE, PROFILE, Desk, Ran, built, own_network, specs_folder, write_profile
from tests.integration.docker_stand_ins import docker, needs_docker
from tests.support import ROOT
from tests.unit.pod.bridge.claude import CLAUDE, NODE, needs_claude
from tests.unit.pod.living import free_port

pytestmark = [
    pytest.mark.real_docker, pytest.mark.real_engine, pytest.mark.real_client, needs_docker, needs_claude,
    pytest.mark.skipif(not (ENGINE / ".complete").exists(), reason=f"SKIPPED: no real engine in {ENGINE}; make it with .ci/real_vllm_cpu.sh"),
]  # fmt: skip
KEY = "a-key-of-this-endpoint"
REPO = "me/pods"


class Story:
    """The box, its Hub, and the profile as it is edited."""

    def __init__(self, desk: Desk, hub: Hub, public_key: str) -> None:
        self.desk, self.hub = desk, hub
        self.profile: dict[str, Any] = {
            "publish": {"repo": REPO, "poll": 1, "when": "now", "reason": "The test's own Hub."},
            "env": {"PODWRIGHT_PUBLIC_KEY": reasoned(public_key), "HF_ENDPOINT": reasoned(hub.url)},
        }
        write_profile(desk.specs, self.profile)

    def edited(self, **changes: Any) -> None:
        """Edit the profile as a person would."""
        write_profile(self.desk.specs, self.profile | changes)

    def publish(self, note: str) -> Ran:
        return self.desk("publish", "--yes", "--now", "--json", "--note", note, **self.hub.env())

    def report(self) -> Report:
        """What the pod says of itself."""
        client = PodClient(self.desk.env["URL"], KEY)
        try:
            seen = client.report()
        finally:
            client.close()
        assert isinstance(seen, Report), seen
        return seen

    def engine(self) -> str:
        """The engine's command line, with its process's number in front."""
        look = "for p in /proc/[0-9]*; do c=$(tr '\\0' ' ' <$p/cmdline 2>/dev/null); case $c in */vllm\\ serve*) echo \"${p#/proc/} $c\"; break;; esac; done"
        return docker("exec", self.desk.container(), "bash", "-c", look).strip()


def reasoned(value: object) -> dict[str, object]:
    return {"value": value, "reason": "For the test."}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder, port = tmp_path_factory.mktemp("desk"), free_port()
    name = f"podwright-test-{os.getpid()}"
    with own_network(name) as gateway, hub_server(host=gateway) as hub:
        hub.create(REPO)
        env = {"PODWRIGHT_API_KEY": KEY, "PODWRIGHT_DOCKER_NETWORK": name, "PODWRIGHT_PORT": str(port), "URL": f"http://127.0.0.1:{port}",
               "PODWRIGHT_SIGNING_KEY": str(folder / "signing.key")}  # fmt: skip
        desk = Desk(folder, specs_folder(folder / "specs"), env)
        made = desk_keygen(desk)
        story = Story(desk, hub, made)
        tag = built(desk.specs, folder / "build")
        try:
            yield story
        finally:
            if container := desk.container():
                print(docker("logs", "--tail", "60", container, check=False))
                docker("rm", "-f", container, check=False)
            docker("volume", "rm", "-f", f"podwright-{PROFILE}-cache", check=False)
            docker("rmi", "-f", tag, check=False)


def desk_keygen(desk: Desk) -> str:
    """A signing key of the test's own; its public half."""
    made = subprocess.run([sys.executable, "-m", "compiler", "keygen", "--json"], cwd=ROOT, env={**os.environ, **desk.env}, capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["public_key"])


def test_a_pod_is_deployed_and_proves_that_it_serves(story: Story) -> None:
    ran = story.desk("deploy", "--yes", "--json")
    assert ran.code == 0, ran.err[-4000:]
    found = ran.json
    assert found["url"] == story.desk.env["URL"] and [p["name"] for p in found["proofs"]] == ["key", "context", "generation"]
    assert found["pod"]["id"] == story.desk.container()[:12] and found["cost_usd"] is None
    (row,) = story.desk("status", "--json", specs=False).json["pods"]
    assert (row["status"], row["ready"], row["url"]) == ("RUNNING", True, found["url"])
    again = story.desk("deploy", "--yes", "--json")
    assert again.code == 0 and again.json["pod"]["id"] == found["pod"]["id"], "the same profile takes the pod over"


def test_a_publish_that_reloads_the_bridge(story: Story) -> None:
    before = story.engine()
    story.edited(bridge={"mode": "translate", "ping": 7})
    ran = story.publish("pings")
    assert ran.code == 0, ran.err[-4000:]
    assert ran.json["forecast"][0]["effect"] == "bridge reload" and ran.json["pods"][0]["end"] == "serving"
    report = story.report()
    assert (report.state, report.sequence) == ("serving", 1) and story.engine() == before


def test_a_publish_that_restarts_the_engine(story: Story) -> None:
    before = story.engine()
    story.edited(bridge={"mode": "translate", "ping": 7}, settings={"max_num_seqs": reasoned(32)})
    ran = story.publish("fewer at once")
    assert ran.code == 0, ran.err[-4000:]
    assert ran.json["forecast"][0]["effect"] == "engine restart" and ran.json["pods"][0]["end"] == "serving"
    report = story.report()
    assert (report.state, report.sequence) == ("serving", 2) and story.engine() != before
    assert "--max-num-seqs 32" in story.engine() and "--max-num-seqs 64" in before


def test_a_publish_that_cannot_start_goes_back(story: Story) -> None:
    """Weights that nobody has: the engine's parser takes the command line, its worker finds no file."""
    before = story.report()
    served = {"bridge": {"mode": "translate", "ping": 7}, "settings": {"max_num_seqs": reasoned(32)}}
    story.edited(bridge=served["bridge"], settings={**served["settings"], "load_format": reasoned("safetensors")})
    try:
        ran = story.publish("does not start")
    finally:
        story.edited(**served)
    assert ran.code == 4 and ran.json["pods"][0]["end"] == "back", ran.out + ran.err[-4000:]
    waited = story.desk("wait", "--json")  # It says that it goes back before what served before serves again.
    assert waited.code == 0, waited.err[-4000:]
    after = story.report()
    assert (after.state, after.manifest, after.sequence) == ("serving", before.manifest, before.sequence) and after.quarantined


def test_claude_code_through_connect(story: Story, tmp_path: Path) -> None:
    found = story.desk("connect", "--json").json
    assert (found["model"], found["context_window"], found["url"]) == ("tiny", 32768, story.desk.env["URL"]) and KEY not in json.dumps(found)
    path = f"{CLAUDE.parent}:{Path(NODE).parent}:/usr/bin:/bin"
    words = ("-p", "Say something.", "--output-format", "json", "--tools", "Read", "--system-prompt", "Be brief.")
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "ANTHROPIC_API_KEY": "sk-ant-of-somebody", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64"}
    ran = story.desk("connect", "--launch", "--", *words, PATH=path, HOME=str(tmp_path), **quiet)
    result = json.loads(ran.out)
    assert list(result["modelUsage"]) == ["tiny"] and result["modelUsage"]["tiny"]["contextWindow"] == 32768, ran.err
    assert result["usage"]["output_tokens"] > 0


def test_its_end_leaves_nothing(story: Story) -> None:
    for action, state in (("stop", "EXITED"), ("start", "RUNNING")):
        assert story.desk(action, "--yes", specs=False).code == 0
        assert story.desk("status", "--json", specs=False).json["pods"][0]["status"] == state
    ran = story.desk("wait", "--json")
    assert ran.code == 0 and ran.json["url"] == story.desk.env["URL"], ran.err[-4000:]
    assert story.desk("terminate", "--yes", specs=False).code == 0
    assert story.desk.container() == "" and story.desk("status", "--json", specs=False).json["pods"][0]["note"] == "no pod"
