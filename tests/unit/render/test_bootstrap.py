"""The bootstrap as text: only what the profile needs, in order, and data that stays data."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.plan.core import DesktopPlan, Override, Package, Plan
from compiler.render.bootstrap import render_bootstrap
from compiler.render.payload import render_payload
from compiler.resolve.overrides import OVERRIDES, overrides_for
from compiler.resolve.start import bootstrap_phases
from tests.unit.render.plans import (
    MANIFEST,
    cpu_plan,
    example_engine,
    example_hardware,
    example_image,
    example_plan,
    static_files,
)

FILES = static_files()


def script(plan: Plan) -> str:
    return render_bootstrap(plan, FILES, render_payload(plan, FILES, MANIFEST)).text


def phases(text: str) -> list[str]:
    found = re.search(r"for phase in (.*); do", text)
    assert found
    return found[1].split()


def test_phases_of_a_prebaked_gpu_profile() -> None:
    expected = ["overrides", "disk", "driver", "ports", "gpu", "toolkit", "torch", "extras", "runtime"]
    assert phases(script(example_plan())) == expected


def test_phases_that_other_profiles_add_or_leave_out() -> None:
    assert phases(script(cpu_plan())) == ["overrides", "disk", "ports", "runtime"]
    bare = example_plan(image=example_image(prebaked=False))
    assert {"payload", "install"} < set(bare.bootstrap_phases)
    full = bootstrap_phases(example_image(ssh=True), example_engine(), DesktopPlan(6080, "VNC_PASSWORD"))
    assert {"ssh", "desktop"} < set(full)


@pytest.mark.parametrize("plan", [example_plan(), cpu_plan(), example_plan(image=example_image(prebaked=False))])
def test_every_phase_has_its_function_and_no_other_is_there(plan: Plan) -> None:
    text = script(plan)
    defined = set(re.findall(r"^phase_(\w+)\(\)", text, re.MULTILINE))
    assert set(phases(text)) <= defined
    assert defined - set(phases(text)) <= {"driver", "gpu", "torch"}


def test_gpu_words_are_absent_from_a_cpu_profile() -> None:
    assert not re.search(r"nvidia|cuda-compat|curand|MIN_DRIVER", script(cpu_plan()))


def test_it_is_the_same_on_every_run_and_its_banner_changes_with_it() -> None:
    first, again = script(example_plan()), script(example_plan())
    other = script(example_plan(hardware=example_hardware(min_driver=590)))
    banner = re.compile(r"podwright bootstrap ([0-9a-f]{12})")
    assert first == again
    assert banner.findall(first) != banner.findall(other)


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_in_the_plan_stays_data(text: str) -> None:
    """Bash itself says what it read, and that nothing was run."""
    plan = example_plan(hardware=example_hardware(name=text), image=example_image(packages=(Package(f"p{text}", "x"),)))
    data = script(plan).split("\nlog() {")[0].split("declare -A HOST_ENV")[0]
    asked = "\nprintf '%s\\0' \"$GPU_NAME\" \"${PACKAGES[@]}\""
    run = subprocess.run(["bash", "-c", data + asked], capture_output=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, check=True)
    assert run.stdout.split(b"\0")[:2] == [text.encode(), f"1|p{text}".encode()]


def test_bash_can_parse_every_kind(tmp_path: Path) -> None:
    for number, plan in enumerate((example_plan(), cpu_plan(), example_plan(image=example_image(prebaked=False, ssh=True, desktop=True)))):
        file = tmp_path / f"{number}.sh"
        file.write_text(script(plan), "utf-8")
        subprocess.run(["bash", "-n", str(file)], check=True)


def test_override_names_are_unique_and_no_field_breaks_its_row() -> None:
    assert len({o.name for o in OVERRIDES}) == len(OVERRIDES)
    for override in OVERRIDES:
        assert re.fullmatch(r"VL_[A-Z0-9_]+", override.name)
        assert "|" not in override.effect and override.effect.endswith(".")


SAMPLES = ["", "on", "off", "1", "0", "16", "131072", "0.93", "1.5", "fp8", "auto", "a/b", "a b", "$(id)", "`id`", 'x"y', "x\\y", "x'y", "on\n", "-1", "é", "1e6", "8080", "0 1"]


@pytest.mark.parametrize("override", OVERRIDES, ids=lambda o: o.name)
def test_python_and_bash_read_each_pattern_alike(override: Override) -> None:
    program = 'p=$1; shift; for v in "$@"; do if [[ $v =~ ^($p)$ ]]; then echo y; else echo n; fi; done'
    run = subprocess.run(["bash", "-c", program, "_", override.pattern, *SAMPLES], capture_output=True, text=True, check=True)
    matched = [bool(re.fullmatch(override.pattern, s)) for s in SAMPLES]
    assert run.stdout.split() == ["y" if m else "n" for m in matched]
    assert any(matched) or override.name in ("VL_KVBYTES", "VL_ATTN", "VL_MAMBA_BACKEND", "VL_MAMBA_DTYPE")
    assert not any(m and re.search(r"[\"'`$\\\n]", s) for m, s in zip(matched, SAMPLES, strict=True))


def test_only_levers_that_mean_something_are_offered() -> None:
    plain = overrides_for(
        example_image(packages=()), example_engine(cuda=None), swaps=False, has_journal=False, has_compile_cache=False, known_settings=frozenset({"max_model_len"})
    )
    names = {o.name for o in plain}
    assert "VL_CTX" in names
    assert not names & {"VL_FLASHINFER", "VL_HUMMING_EXTRAS", "VL_JOURNAL", "VL_CACHE", "VL_MODEL", "VL_OPT"}
