#!/usr/bin/env bash
# Install prism, which serves an OpenAPI document as a server that validates each request, into PODWRIGHT_REAL_PARTS_DIR/prism.
# Prints that folder on the last line of stdout. Quick when it is already there.
#
# Exit status 3, with a line that begins with SKIPPED: no npm on this machine.
set -euo pipefail

version="5.14.2"
folder="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}/prism"

if ! command -v npm >/dev/null; then
  printf 'real_prism: SKIPPED: no npm on this machine; requests are not checked against a served document\n' >&2
  exit 3
fi
installed="$folder/node_modules/@stoplight/prism-cli/package.json"
if [ ! -f "$installed" ] || ! grep -q "\"version\": \"$version\"" "$installed"; then
  printf 'real_prism: installing %s\n' "$version" >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --silent --no-fund --no-audit --prefix "$folder" "@stoplight/prism-cli@$version" >&2
fi
printf '%s\n' "$folder"
