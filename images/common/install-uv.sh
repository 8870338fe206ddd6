#!/usr/bin/env bash
# install-uv.sh VERSION: uv in an environment of its own. Distribution Pythons refuse pip (PEP 668), and say so in a way
# that is read as success.
set -euo pipefail

version=$1
if [ -x /opt/uv/bin/uv ] && [ "$(/opt/uv/bin/uv --version | cut -d' ' -f2)" = "$version" ]; then exit 0; fi
python3 -m venv /opt/uv
/opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check "uv==$version"
test -x /opt/uv/bin/uv
