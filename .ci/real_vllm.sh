#!/usr/bin/env bash
# Make the environment of a real engine release (its CUDA build, and a driver library that knows no device), to ask its real
# parser and its configuration phase on a machine without a GPU. Prints the environment's folder on the last line of stdout;
# what it does is told on stderr. Quick when the environment is already there.
#
#   .ci/real_vllm.sh [RELEASE]
#
# Exit status 3, with a line that begins with SKIPPED: no Python that the engine runs on.
set -euo pipefail

release="${1:-0.27.1}"
uv_version="0.13.9"
parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
lock="$here/specs/engines/locks/vllm-$release.txt"
folder="$parts/vllm-$release"
stamp="$folder/.complete"

say() { printf 'real_vllm: %s\n' "$*" >&2; }

# The engine's own wheels exist for 3.10 to 3.14, but FlashInfer's Python does not import below 3.12. The locks are for 3.12.
find_python() {
  local candidate
  for candidate in "${PODWRIGHT_PYTHON312:-}" "$(command -v python3.12 || true)" \
    "${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/3.12.*/bin/python3.12 /usr/local/bin/python3.12 /opt/python3.12/bin/python3.12; do
    # A version manager's shim answers to the name without having the version, so ask it to run.
    if [ -n "$candidate" ] && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  # Debian 12 and 13 have none; a later release, or Ubuntu 24.04, does.
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] && apt-cache show python3.12-venv >/dev/null 2>&1; then
    apt-get install -y -qq python3.12 python3.12-venv >&2 && command -v python3.12 && return 0
  fi
  return 1
}

# uv from the package registry, in an environment of its own: it resolves in a second and needs no pip settings.
make_uv() {
  if [ ! -x "$parts/tools/bin/uv" ] || [ "$("$parts/tools/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    say "installing uv $uv_version"
    python3 -m venv "$parts/tools"
    "$parts/tools/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version" >&2
  fi
}

# The engine's compiled modules link against the driver. A library that has the symbols they name, and answers "no device" to
# each, lets them load. The names are read from the release's own files, so that a release which needs more gets more.
make_driver() {
  local symbols source
  symbols="$(find "$folder"/lib/python3.*/site-packages/vllm -maxdepth 2 -name '*.so' -exec nm -D --undefined-only {} + 2>/dev/null |
    grep -oE ' U cu[A-Z][A-Za-z0-9_]*' | awk '{print $2}' | sort -u)"
  [ -n "$symbols" ] || { say "no driver symbols found: is nm (binutils) installed?"; return 1; }
  mkdir -p "$folder/no-device"
  source="$folder/no-device/no_device.c"
  # 100 is CUDA_ERROR_NO_DEVICE.
  while read -r symbol; do printf 'int %s(void) { return 100; }\n' "$symbol"; done <<<"$symbols" >"$source"
  cc -shared -fPIC -o "$folder/no-device/libcuda.so.1" "$source"
}

main() {
  if [ -f "$stamp" ] && "$folder/bin/python" -c '' 2>/dev/null; then
    printf '%s\n' "$folder"
    return 0
  fi
  local python started
  started="$(date +%s)"
  python="$(find_python)" || {
    say "SKIPPED: no Python 3.12 on this machine (name one in PODWRIGHT_PYTHON312); the real engine's tests will not run"
    exit 3
  }
  mkdir -p "$parts"
  make_uv
  if ! command -v nm >/dev/null || ! command -v cc >/dev/null; then
    say "installing gcc and binutils"
    apt-get update -qq >&2 && apt-get install -y -qq gcc libc6-dev binutils >&2
  fi
  say "installing vllm $release on $("$python" --version) into $folder (about 7.6 GB)"
  rm -rf "$folder"
  "$parts/tools/bin/uv" venv --quiet --python "$python" "$folder"
  if [ -f "$lock" ]; then
    "$parts/tools/bin/uv" pip install --quiet --python "$folder/bin/python" --no-deps --require-hashes -r "$lock" >&2
  else
    "$parts/tools/bin/uv" pip install --quiet --python "$folder/bin/python" "vllm==$release" >&2
  fi
  make_driver
  date -u +%FT%TZ >"$stamp"
  say "done in $(($(date +%s) - started)) s, $(du -sh "$folder" | cut -f1)"
  printf '%s\n' "$folder"
}

main
