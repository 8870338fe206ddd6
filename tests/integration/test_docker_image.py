"""The recipes' rarer paths in a real Docker engine: both kinds of official image, a public base without Python, sshd, desktop."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from compiler.artifact import Bundle, written
from compiler.plan.core import DesktopPlan, Package, Plan, PublishPlan
from compiler.render.dockerfile import render_image
from compiler.render.start_command import render_start
from tests.integration.docker_stand_ins import (
    BASE,
    bare,
    build,
    container,
    docker,
    lock,
    logs_until,
    needs_docker,
    official_environment,
    official_system,
    removed,
)
from tests.unit.render.plans import MANIFEST, example_engine, example_image, example_plan, static_files

pytestmark = [pytest.mark.real_docker, needs_docker]
EXTRAS = (Package("podwright-extra==2.0", "an upgrade"), Package("podwright-part==2.0", "its own part"))
VERSIONS = "from importlib.metadata import version as v; print(*map(v, ('vllm', 'torch', 'podwright-extra', 'podwright-part')))"
UPGRADED = "0.27.1 2.13.0+cu130 2.0 2.0"
"""Both extras are new; the engine and a torch whose version no index offers are untouched."""


def bundle(folder: Path, plan: Plan, engine_lock: bytes = b"") -> Path:
    """The bundle of `plan` on disk, as the pipeline would leave it."""
    files = {**static_files(), "specs/engines/locks/example.txt": engine_lock}
    written(Bundle.of("example", [*render_image(plan, files), *render_start(plan, files, MANIFEST), MANIFEST]), folder)
    return folder


@dataclasses.dataclass(frozen=True)
class Official:
    """A stand-in for the official image, the interpreter that has its engine, and what our child image on it says of itself.

    One container answers everything: this storage driver copies the whole image for each.
    """

    base: str
    python: str
    said: dict[str, str]


QUESTIONS = {
    "marker": "cat /opt/.image_prebaked",
    "versions": f'/opt/podwright/engine-python -c "{VERSIONS}"',
    "program": "/opt/podwright/engine-python -c \"import shutil; print(shutil.which('vllm'))\"",
    "greedy": "/opt/podwright/common/install-extra.sh /opt/podwright/engine-python podwright-greedy==1.0 || echo refused",
    "versions after": f'/opt/podwright/engine-python -c "{VERSIONS}"',
    "host keys": "ls /etc/ssh/ssh_host_*",
    "sshd": "ssh-keygen -A >/dev/null; $(command -v sshd) -T | grep -E '^(passwordauthentication|permitrootlogin|kbdinteractive)' | sort",
}


@pytest.fixture(scope="module", params=["environment", "system"])
def official(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Official]:
    is_environment = request.param == "environment"
    base = official_environment() if is_environment else official_system()
    child = f"podwright-test/child-{request.param}:1"
    image = example_image(recipe="vllm-openai", base=base, base_digest=None, packages=EXTRAS, cuda_apt=(), ssh=is_environment)
    build(bundle(tmp_path_factory.mktemp("official") / "example", example_plan(image=image)), child)
    config = docker("inspect", "-f", "{{json .Config.Entrypoint}} {{json .Config.Cmd}}", child)
    script = "; ".join(f"echo '@@{name}'; ( {question} ) 2>&1" for name, question in QUESTIONS.items())
    parts = docker("run", "--rm", "--network=host", child, "bash", "-c", script).split("@@")[1:]
    said = {name: " ".join(text.split()) for name, text in (part.split("\n", 1) for part in parts)}
    yield Official(base, "/opt/venv/bin/python" if is_environment else "/usr/bin/python3", {**said, "config": config.strip()})
    removed(child, base)


def test_engine_of_the_official_image_is_found_and_named_in_the_marker(official: Official) -> None:
    assert official.said["marker"] == f"recipe=vllm-openai engine=vllm==0.27.1 python={official.python}"


def test_entrypoint_of_the_official_image_is_gone(official: Official) -> None:
    assert official.said["config"] in ('null ["/opt/podwright/bootstrap.sh"]', '[] ["/opt/podwright/bootstrap.sh"]')


def test_extras_change_nothing_but_themselves(official: Official) -> None:
    assert official.said["versions"] == UPGRADED


def test_extra_that_needs_another_torch_is_refused_by_name(official: Official) -> None:
    assert "podwright-greedy depend on torch>=2.14" in official.said["greedy"] and official.said["greedy"].endswith("refused")
    assert official.said["versions after"] == UPGRADED


def test_engines_program_is_on_the_path_of_what_the_runtime_starts(official: Official) -> None:
    assert official.said["program"] == ("/opt/venv/bin/vllm" if "venv" in official.python else "/usr/local/bin/vllm")


def test_sshd_of_the_image_takes_keys_only_and_has_no_host_keys(official: Official) -> None:
    if "venv" not in official.python:
        assert "not found" in official.said["sshd"], "this profile asked for no sshd"
        return
    assert "No such file" in official.said["host keys"]
    assert official.said["sshd"] == "kbdinteractiveauthentication no passwordauthentication no permitrootlogin without-password"


class _Hub(BaseHTTPRequestHandler):
    """A publish repository that holds one payload."""

    payload = b""

    def do_GET(self) -> None:
        found = self.path.startswith("/owner/bundles/resolve/main/payload/")
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(self.payload if found else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def started(folder: Path, plan: Plan, hub: str, engine_lock: bytes = b"") -> str:
    """The log of a public base image that is given the pod request's own entrypoint and argv."""
    written_bundle = bundle(folder, plan, engine_lock)
    _Hub.payload = (written_bundle / "payload.tar.bz2").read_bytes()
    argv = json.loads((written_bundle / "start-command.json").read_text("utf-8"))
    entrypoint = plan.deploy.entrypoint[0]
    options = ("--network=host", "--entrypoint", entrypoint, "--tmpfs", "/hub:size=200g", "-e", "HF_HOME=/hub", "-e", f"HF_ENDPOINT={hub}", "-e", "VL_HFOFFLINE=off")
    with container(plan.image.base, *argv, options=options) as name:
        return logs_until(name, "FATAL", "stays open")


def public_plan(base: str, **image: object) -> Plan:
    """A plan without GPU on a public base, whose bundle is published."""
    shown = example_image(base=base, base_digest=None, prebaked=False, python="3.11", public_entrypoint=True, cuda_apt=(), **image)
    return example_plan(image=shown, engine=example_engine(cuda=None), publish=PublishPlan("owner/bundles", "p/publication.json", 30.0, "idle", "KEY", False))


def test_official_image_that_is_not_prebaked_gets_runtime_and_extras_at_boot(tmp_path: Path, official: Official, hub: str) -> None:
    logs = started(tmp_path / "example", public_plan(official.base, recipe="vllm-openai", packages=EXTRAS), hub)
    assert "verified and unpacked" in logs and f"vllm 0.27.1 is in {official.python}" in logs, logs[-3000:]
    assert "FATAL" not in logs and "WARNING" not in logs.replace("WARNING fast tokenizer off", ""), logs[-3000:]
    assert "podwright-extra==2.0: installed in place of 1.0" in logs and "podwright-part==2.0: installed" in logs, logs[-3000:]
    assert "starting the runtime" in logs, logs[-3000:]


def test_public_base_without_python_gets_everything_at_boot(tmp_path: Path, hub: str) -> None:
    """Neither Python nor curl: the script installs them to fetch the rest. The C compiler is left out: its 400 MB change nothing here."""
    plan = public_plan(bare(), packages=())
    small = tuple(p for p in plan.image.build_apt if p.name not in ("gcc", "g++", "libpython3.11-dev"))
    plan = dataclasses.replace(plan, image=dataclasses.replace(plan.image, build_apt=small))
    logs = started(tmp_path / "example", plan, hub, lock("vllm==0.27.1", "torch==2.13.0", "nvidia-cublas==13.1.1.3"))
    assert "verified and unpacked" in logs and "vllm 0.27.1 is in /opt/venv/bin/python" in logs, logs[-3000:]
    assert "starting the runtime" in logs, logs[-3000:]


def test_every_package_of_the_desktop_exists(tmp_path: Path) -> None:
    """The names, as apt resolves them; half a gigabyte of desktop is not downloaded for it."""
    plan = example_plan(image=example_image(desktop=True), desktop=DesktopPlan(6080, "VNC_PASSWORD"))
    text = next(a.text for a in render_image(plan, static_files()) if a.path == "Dockerfile")
    names = next(line for line in text.splitlines() if "x11vnc" in line).split("required ")[1]
    docker("run", "--rm", "--network=host", BASE, "bash", "-c", f"apt-get update -qq && apt-get install -qq --simulate {names}")
