#!/usr/bin/env bash
# Make an environment with a real engine release (its CUDA build, and a driver library that knows no device), to ask it questions
# on a machine without a GPU. Prints the environment's folder on the last line of stdout; what it does is told on stderr.
#
#   make_environment.sh RELEASE FOLDER [LOCK]       the environment; quick when it is already there
#   make_environment.sh --driver PACKAGE FOLDER     only the driver library, for the engine package of another environment
#
# PODWRIGHT_PYTHON312 names a Python 3.12; with PODWRIGHT_MAY_INSTALL=1 missing system packages are installed (apt, as root).
# Exit status 3, with a line that begins with SKIPPED: no Python that the engine runs on; 4: no compiler for the driver library.
set -euo pipefail

uv_version="0.13.9"

say() { printf 'engine: %s\n' "$*" >&2; }

may_install() { [ "${PODWRIGHT_MAY_INSTALL:-0}" = 1 ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; }

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
  if may_install && apt-cache show python3.12-venv >/dev/null 2>&1; then
    apt-get install -y -qq python3.12 python3.12-venv >&2 && command -v python3.12 && return 0
  fi
  return 1
}

# uv from the package registry, in an environment of its own: it resolves in a second and needs no pip settings.
make_uv() {
  local tools="$1" python="$2"
  if [ ! -x "$tools/bin/uv" ] || [ "$("$tools/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    say "installing uv $uv_version"
    "$python" -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version" >&2
  fi
}

need_compiler() {
  command -v nm >/dev/null && command -v cc >/dev/null && return 0
  if may_install; then
    say "installing gcc and binutils"
    apt-get update -qq >&2 && apt-get install -y -qq gcc libc6-dev binutils >&2
    return 0
  fi
  say "no cc or nm on this machine: install gcc and binutils"
  exit 4
}

# The engine's compiled modules link against the driver. A library that has the symbols they name, and answers "no device" to
# each, lets them load. The names are read from the release's own files, so that a release which needs more gets more.
make_driver() {
  local package="$1" folder="$2" symbols
  symbols="$(find "$package" -maxdepth 2 -name '*.so' -exec nm -D --undefined-only {} + 2>/dev/null |
    grep -oE ' U cu[A-Z][A-Za-z0-9_]*' | awk '{print $2}' | sort -u)" || true
  [ -n "$symbols" ] || { say "no driver symbols in $package: is it the engine's CUDA build?"; exit 4; }
  mkdir -p "$folder"
  # 100 is CUDA_ERROR_NO_DEVICE.
  while read -r symbol; do printf 'int %s(void) { return 100; }\n' "$symbol"; done <<<"$symbols" >"$folder/no_device.c"
  cc -shared -fPIC -o "$folder/libcuda.so.1" "$folder/no_device.c"
}

main() {
  local release="$1" folder="$2" lock="${3:-}" python parts started
  if [ -f "$folder/.complete" ] && "$folder/bin/python" -c '' 2>/dev/null; then
    printf '%s\n' "$folder"
    return 0
  fi
  started="$(date +%s)"
  python="$(find_python)" || {
    say "SKIPPED: no Python 3.12 on this machine (name one in PODWRIGHT_PYTHON312)"
    exit 3
  }
  need_compiler
  parts="$(dirname "$folder")"
  mkdir -p "$parts"
  make_uv "$parts/tools" "$python"
  say "installing vllm $release on $("$python" --version) into $folder (about 7.6 GB)"
  rm -rf "$folder"
  "$parts/tools/bin/uv" venv --quiet --python "$python" "$folder"
  if [ -f "$lock" ]; then
    "$parts/tools/bin/uv" pip install --quiet --python "$folder/bin/python" --no-deps --require-hashes -r "$lock" >&2
  else
    "$parts/tools/bin/uv" pip install --quiet --python "$folder/bin/python" "vllm==$release" >&2
  fi
  make_driver "$(echo "$folder"/lib/python3.*/site-packages/vllm)" "$folder/no-device"
  date -u +%FT%TZ >"$folder/.complete"
  say "done in $(($(date +%s) - started)) s, $(du -sh "$folder" | cut -f1)"
  printf '%s\n' "$folder"
}

if [ "${1:-}" = --driver ]; then
  need_compiler
  make_driver "$2" "$3"
else
  main "$@"
fi
