#!/usr/bin/env bash
# install-extra.sh PYTHON REQUIREMENT: one distribution on top of the engine. uv first, because the engine's environment in
# official images was made by uv and has no pip of its own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

if [ -x /opt/uv/bin/uv ]; then
  /opt/uv/bin/uv pip install --quiet --python "$1" "$2"
elif command -v uv >/dev/null; then
  uv pip install --quiet --python "$1" "$2"
else
  "$1" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$2"
fi
