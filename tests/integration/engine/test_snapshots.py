"""The flag snapshots are what the releases' real parsers say today: nobody edits them by hand."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.integration.parts import PARSER_SECONDS, ROOT, engine_absent, engine_parts

FLAGS = ROOT / "specs" / "engines" / "flags"
RELEASES = sorted(path.stem.removeprefix("vllm-") for path in FLAGS.glob("vllm-*.json"))
# What a machine may have otherwise than the one that the snapshot was taken on; what the release says may not differ.
OF_THE_MACHINE = ("taken_with",)


@pytest.mark.real_engine
@pytest.mark.parametrize("release", RELEASES)
def test_a_snapshot_taken_now_is_the_one_in_the_repository(release: str) -> None:
    parts = engine_parts(release)
    if parts is None:
        pytest.skip(engine_absent(release))
    command = [str(parts.python), str(ROOT / "images" / "engine" / "snapshot_flags.py")]
    done = subprocess.run(command, env=parts.env(), capture_output=True, text=True, timeout=PARSER_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    taken, kept = json.loads(done.stdout), json.loads((FLAGS / f"vllm-{release}.json").read_text())
    for part in kept:
        if part not in OF_THE_MACHINE:
            assert taken[part] == kept[part], f"{part} differs: take the snapshot again"
