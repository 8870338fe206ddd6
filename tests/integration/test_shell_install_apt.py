"""install-apt.sh under a real Bash, with an apt-get that knows some names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "images" / "common" / "install-apt.sh"
# Like the real one: a call with one wrong name installs nothing.
APT = """#!/bin/bash
[ "$1" = install ] || exit 0
names=("${@:5}")
for name in "${names[@]}"; do [[ $name != no-such-* ]] || { echo "E: Unable to locate package $name" >&2; exit 100; }; done
printf '%s\\n' "${names[@]}" >>"$INSTALLED"
"""


def test_one_wrong_name_is_named_and_keeps_no_other_from_being_installed(tmp_path: Path) -> None:
    for name, text in (("apt-get", APT), ("rm", "#!/bin/bash\n/bin/rm -f /tmp/apt-error\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "INSTALLED": str(tmp_path / "installed")}

    def install(*names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", str(SCRIPT), "required", *names], env=env, capture_output=True, text=True, check=False)

    done = install("numactl", "no-such-header", "openssh-server")
    assert done.returncode == 1 and done.stderr == "cannot go on without: no-such-header\n"
    assert "MISSING no-such-header: E: Unable to locate package no-such-header" in done.stdout
    assert (tmp_path / "installed").read_text().split() == ["numactl", "openssh-server"]
    assert install("numactl").returncode == 0
