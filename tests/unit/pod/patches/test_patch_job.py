"""`python -m pod.patches apply`: the repairs of one engine, from a Hub over HTTP."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.contract import ConfigPatch, Fetch, ScriptPatch
from pod.patches.job import Job
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused, of_line
from pod.strict_json import encoded

from tests.hub_server import Hub, hub_server
from tests.unit.pod.hub.transfers import env_of
from tests.unit.pod.manifests import example_manifest
from tests.unit.pod.patches.engines import FILES, content, engine

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create("owner/patches")
        yield server


def job_with(tmp_path: Path, hub: Hub) -> Job:
    """A checkpoint and an engine that both need a repair."""
    site = tmp_path / "site"
    engine(site)
    folder = tmp_path / "hub/models--owner--model"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "config.json").write_text('{"a": {}}')
    text = f"from pathlib import Path\nPath(r'{site}/vllm/envs.py').write_text('A = 2\\n')\n".encode()
    hub.commit("owner/patches", {"patch.py": text})
    expects = {"vllm/envs.py": hashlib.sha256(FILES["vllm/envs.py"].encode()).hexdigest()}
    patch = ScriptPatch("patch.py", "owner/patches", hashlib.sha256(text).hexdigest(), ("0.27.1",), expects, "why")
    return Job(
        (ConfigPatch("config.json", ("a", "b"), ("c",), "why"),),
        (patch,),
        Fetch("model", "owner/model", COMMIT, None),
        str(tmp_path / "hub"),
        str(tmp_path / "kept"),
        "vllm",
    )


def run(job: Job | str, hub: Hub, site: Path) -> tuple[list[Outcome | None], int, str]:
    env = env_of(hub)
    env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{site}"
    text = job if isinstance(job, str) else json.dumps(encoded(job))
    done = subprocess.run([sys.executable, "-m", "pod.patches", "apply"], input=text, env=env, capture_output=True, text=True, check=False)
    return [of_line(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


def test_both_are_repaired_once(hub: Hub, tmp_path: Path) -> None:
    job = job_with(tmp_path, hub)
    first, code, errors = run(job, hub, tmp_path / "site")
    assert [type(o) for o in first] == [Applied, Applied] and code == 0, (first, errors)
    assert content(tmp_path / "site")["vllm/envs.py"] == "A = 2\n"
    again, code, _ = run(job, hub, tmp_path / "site")
    assert [type(o) for o in again] == [AlreadyThere, AlreadyThere] and code == 0


def test_the_first_refusal_ends_it(hub: Hub, tmp_path: Path) -> None:
    job = job_with(tmp_path, hub)
    broken = dataclasses.replace(job, config_patches=(ConfigPatch("config.json", ("x", "y"), ("c",), ""),))
    outcomes, code, _ = run(broken, hub, tmp_path / "site")
    assert [type(o) for o in outcomes] == [Refused] and code == 1 and content(tmp_path / "site") == FILES


def test_a_folder_of_the_owner_s_is_not_changed(hub: Hub, tmp_path: Path) -> None:
    outcomes, code, _ = run(dataclasses.replace(job_with(tmp_path, hub), model=None), hub, tmp_path / "site")
    assert code == 1 and isinstance(outcomes[0], Refused) and "its owner" in outcomes[0].reason


def test_an_image_without_the_engine(hub: Hub, tmp_path: Path) -> None:
    outcomes, code, _ = run(dataclasses.replace(job_with(tmp_path, hub), distribution="no-such-engine"), hub, tmp_path / "site")
    assert code == 1 and isinstance(outcomes[-1], Refused) and outcomes[-1].reason == "no-such-engine is not installed"


def test_a_job_is_what_the_manifest_says(tmp_path: Path) -> None:
    manifest = example_manifest()
    job = Job.of(manifest, manifest.engine, tmp_path, tmp_path / "kept")
    assert job.config_patches == manifest.engine.launch.config_patches and job.model == manifest.engine.launch.fetch[0] and not job.is_empty
    assert dataclasses.replace(job, config_patches=()).is_empty


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_input_that_is_no_job(text: str, tmp_path: Path) -> None:
    outcomes, code, errors = run(text, Hub(), tmp_path)
    assert code == 65 and outcomes == [] and errors.startswith("input: ")
