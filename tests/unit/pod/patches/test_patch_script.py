"""Scripts that change an installed engine: run once, verified, undone when they do not do what they should."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pod.contract import ScriptPatch
from pod.patches import script
from pod.patches.installed import Installed
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused

from tests.unit.pod.patches.engines import FILES, content, engine

LOADER = "vllm/models/loader.py"
GOOD = """from pathlib import Path
f = Path(r'SITE/vllm/models/loader.py')
f.write_text(f.read_text().replace('205', '206'))
print('raised the limit')
"""


class Pod:
    """One engine and one repository of scripts."""

    def __init__(self, root: Path) -> None:
        self.site, self.kept, self.fetched = root / "site", root / "kept", 0
        self.installed = engine(self.site)
        self.text = ""
        self.away: tuple[str, bool] | None = None

    def fetch(self, repo: str, file: str, target: Path) -> tuple[str, bool] | None:
        self.fetched += 1
        if self.away is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.text)
        return self.away

    def apply(
        self,
        text: str,
        *,
        releases: tuple[str, ...] = ("0.27.1",),
        expects: tuple[str, ...] = (),
        sha256: str | None = "",
        env: dict[str, str] | None = None,
    ) -> Outcome:
        self.text = text.replace("SITE", str(self.site))
        digest = hashlib.sha256(self.text.encode()).hexdigest() if sha256 == "" else sha256
        hashes = {path: hashlib.sha256(FILES[path].encode()).hexdigest() for path in expects}
        patch = ScriptPatch("patch.py", "o/r", digest, releases, hashes, "why")
        return script.apply(patch, self.installed, self.fetch, self.kept, {"PATH": os.environ["PATH"]} if env is None else env)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


@pytest.mark.parametrize("expects", [(), (LOADER,)])
def test_applied_once_and_fetched_once(pod: Pod, expects: tuple[str, ...]) -> None:
    first = pod.apply(GOOD, expects=expects)
    assert first == Applied("o/r/patch.py", f"changed {LOADER}: raised the limit")
    assert content(pod.site)[LOADER] == "LIMIT = 206\n"
    assert pod.apply(GOOD, expects=expects) == AlreadyThere("o/r/patch.py", "its changes of 1 files are there")
    assert pod.fetched == 1


def test_an_engine_that_was_installed_anew_is_repaired_anew_without_the_hub(pod: Pod) -> None:
    pod.apply(GOOD, expects=(LOADER,))
    (pod.site / LOADER).write_text(FILES[LOADER])
    pod.away = ("the Hub cannot be reached", True)
    assert isinstance(pod.apply(GOOD, expects=(LOADER,)), Applied) and pod.fetched == 1


def test_another_release_is_looked_at_anew_though_its_files_are_the_same(pod: Pod) -> None:
    releases = ("0.27.1", "0.28.0")
    pod.apply(GOOD, releases=releases)
    patched = (pod.site / LOADER).read_text()
    shutil.rmtree(pod.site / "vllm-0.27.1.dist-info")
    pod.installed = engine(pod.site, "0.28.0")
    (pod.site / LOADER).write_text(patched)
    assert pod.apply(GOOD, releases=releases) == AlreadyThere("o/r/patch.py", "changed nothing: raised the limit")


def test_a_build_of_the_release_is_the_release(tmp_path: Path) -> None:
    pod = Pod(tmp_path)
    pod.installed = engine(tmp_path / "cpu", "0.27.1+cpu")
    assert pod.installed.is_release(("0.27.1",)) and not pod.installed.is_release(("0.27",))


@pytest.mark.parametrize("releases", [("0.27.0",), ("0.26.0", "0.28.0"), ()])
def test_another_release_is_refused(pod: Pod, releases: tuple[str, ...]) -> None:
    outcome = pod.apply(GOOD, releases=releases)
    assert isinstance(outcome, Refused) and "and 0.27.1 is installed" in outcome.reason
    assert content(pod.site) == FILES and pod.fetched == 0


def test_without_a_sha256_it_is_never_run(pod: Pod) -> None:
    outcome = pod.apply(GOOD, sha256=None)
    assert isinstance(outcome, Refused) and "has no sha256" in outcome.reason and pod.fetched == 0


def test_a_script_that_nobody_has_read_is_never_run(pod: Pod) -> None:
    outcome = pod.apply(GOOD, sha256="0" * 64)
    assert isinstance(outcome, Refused) and "not the file that was reviewed" in outcome.reason
    assert content(pod.site) == FILES and list(pod.kept.iterdir()) == []


def test_a_kept_script_that_was_changed_is_fetched_again(pod: Pod) -> None:
    pod.apply(GOOD)
    (pod.site / LOADER).write_text(FILES[LOADER])
    kept = next(pod.kept.iterdir())
    kept.write_text("raise SystemExit(3)")
    assert isinstance(pod.apply(GOOD), Applied) and pod.fetched == 2


def test_a_file_that_is_another_than_expected_is_refused(pod: Pod) -> None:
    (pod.site / LOADER).write_text("LIMIT = 300\n")
    outcome = pod.apply(GOOD, expects=(LOADER,))
    assert isinstance(outcome, Refused) and outcome.reason == f"{LOADER} is not the file that patch.py was written for (engine 0.27.1)"
    assert content(pod.site)[LOADER] == "LIMIT = 300\n" and pod.fetched == 0


def test_a_hub_that_is_away_may_come_back(pod: Pod) -> None:
    pod.away = ("the Hub cannot be reached", True)
    outcome = pod.apply(GOOD)
    assert isinstance(outcome, Refused) and outcome.may_pass and "the Hub cannot be reached" in outcome.reason


@pytest.mark.parametrize(
    ("text", "expects", "reason"),
    [
        (GOOD + "raise SystemExit(3)\n", (), "ended with code 3"),
        (GOOD + "1/0\n", (), "ended with code 1"),
        (GOOD + "import os; os.kill(os.getpid(), 9)\n", (), "ended with code -9"),
        (GOOD.replace("'206'", "'206 ('"), (), f"left a {LOADER} that Python cannot read"),
        (GOOD + "Path(r'SITE/vllm/envs.py').write_text('A = 2')\n", (LOADER,), "changed vllm/envs.py, which its `expects` do not name"),
        (GOOD, (LOADER, "vllm/envs.py"), "left vllm/envs.py as it was"),
        (GOOD + "Path(r'SITE/vllm/envs.py').unlink()\n", (), "removed vllm/envs.py"),
        (GOOD + "Path(r'SITE/vllm/new.py').write_text('(')\n", (), "left a vllm/new.py that Python cannot read"),
    ],
)  # fmt: skip
def test_a_script_that_goes_wrong_is_undone(pod: Pod, text: str, expects: tuple[str, ...], reason: str) -> None:
    outcome = pod.apply(text, expects=expects)
    assert isinstance(outcome, Refused) and reason in outcome.reason and "was undone" in outcome.reason, outcome
    assert content(pod.site) == FILES
    assert isinstance(pod.apply(GOOD, expects=(LOADER,)), Applied), "and the right one still fits"


def test_a_script_that_finds_its_work_done(pod: Pod) -> None:
    assert pod.apply("print('nothing to do')\n") == AlreadyThere("o/r/patch.py", "changed nothing: nothing to do")


def test_a_script_that_hangs_is_ended_with_its_children(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "SCRIPT_S", 0.5)
    began = time.monotonic()
    outcome = pod.apply(
        GOOD + "import subprocess; print(subprocess.Popen(['sleep', '61.37']).pid, flush=True); import time; time.sleep(60)\n"
    )
    assert isinstance(outcome, Refused) and "did not end within" in outcome.reason and time.monotonic() - began < 20
    assert content(pod.site) == FILES
    pid = int(outcome.reason.rsplit(" ", 1)[1])
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


def test_no_secret_reaches_a_script(pod: Pod) -> None:
    env = {"PATH": os.environ["PATH"], "HF_TOKEN": "hf_secret", "API_KEY": "k"}
    outcome = pod.apply("import os; print(sorted(n for n in os.environ if n in ('HF_TOKEN', 'API_KEY', 'PATH')))\n", env=env)
    assert outcome == AlreadyThere("o/r/patch.py", "changed nothing: ['PATH']")


def test_an_engine_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="vllm is not installed"):
        Installed("vllm", site=tmp_path)


def test_the_note_lies_with_the_installed_files(pod: Pod) -> None:
    """A volume that outlives the container must not remember what a new container does not have."""
    pod.apply(GOOD)
    note = json.loads((pod.site / "podwright-patches.json").read_text())
    assert [entry["release"] for entry in note.values()] == ["0.27.1"]
    (pod.site / "podwright-patches.json").write_text("{broken")
    (pod.site / LOADER).write_text(FILES[LOADER])
    assert isinstance(pod.apply(GOOD), Applied)


def test_the_real_engine_s_files_are_seen(tmp_path: Path) -> None:
    """On this interpreter's own site-packages: a distribution whose name differs from its package."""
    code = (
        "from pod.patches.installed import Installed; i = Installed('PyYAML', 'yaml'); print(i.release, 'yaml/__init__.py' in i.hashes())"
    )
    runtime = Path(__file__).resolve().parents[4] / "images/runtime"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(runtime)}, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("True\n")
