#!/usr/bin/env bash
# install-engine.sh VENV PYTHON UV LOCKS REQUIREMENT: the whole engine at boot, from the parts of its lock in the folder
# LOCKS, or by REQUIREMENT alone where the release has no lock.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

venv=$1 python=$2 uv_version=$3 locks=$4 requirement=$5
"$here/install-uv.sh" "$uv_version"
[ -x "$venv/bin/python" ] || /opt/uv/bin/uv venv --quiet --python "$python" "$venv"
if compgen -G "$locks/*.txt" >/dev/null; then
  for part in "$locks"/*.txt; do "$here/install-lock.sh" "$venv" "$part"; done
else
  /opt/uv/bin/uv pip install --quiet --python "$venv/bin/python" "$requirement"
fi
