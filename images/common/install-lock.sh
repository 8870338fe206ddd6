#!/usr/bin/env bash
# install-lock.sh VENV FILE: one part of the engine's lock. Every distribution is pinned with its hashes, so dependencies
# need no resolving, and a part is a layer by itself.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

hashes=()
if grep -q -- '--hash=' "$2"; then hashes=(--require-hashes); fi
/opt/uv/bin/uv pip install --quiet --no-deps "${hashes[@]}" --python "$1/bin/python" -r "$2"
echo "installed $(grep -c '==' "$2") distributions of $(basename "$2")"
