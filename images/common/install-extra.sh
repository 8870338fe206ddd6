#!/usr/bin/env bash
# install-extra.sh PYTHON REQUIREMENT [WANTED...]: one distribution on top of the engine. Everything that is installed is held
# at its version, so an extra that needs another torch fails here by name and does not replace it. Only REQUIREMENT, and
# the WANTED others of the same profile, may change what is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

requirement=$2
python=$("$1" -c 'import sys; print(sys.executable)')
held=$(mktemp)
trap 'rm -f "$held"' EXIT
"$python" "$here/held.py" "${@:2}" >"$held"
target=(--python "$python")
# An official image that has its engine in the system's Python had it put there by this very option. An environment of
# our own never needs it, and never gets it.
if "$python" -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then target+=(--break-system-packages); fi
/opt/uv/bin/uv pip install --quiet --constraint "$held" "${target[@]}" "$requirement"
