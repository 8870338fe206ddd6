#!/usr/bin/env bash
# install-uv.sh VERSION: uv in a folder of its own, in whichever way this image can. Distribution Pythons refuse pip
# (PEP 668), and say so in a way that is read as success; official images have uv, or pip, or neither.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

version=$1
uv=/opt/uv/bin/uv
is_there() { [ -x "$uv" ] && [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" = "$version" ]; }

# A folder of packages and not an environment: pip and uv both fill one in any Python, managed or not.
into_folder() { "$@" --target /opt/uv/packages "uv==$version" && mkdir -p /opt/uv/bin && ln -sf ../packages/bin/uv "$uv"; }

into_environment() {
  rm -rf /opt/uv
  python3 -m venv /opt/uv && /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check "uv==$version"
}

if is_there; then exit 0; fi
if command -v uv >/dev/null; then
  into_folder uv pip install --quiet --python "$(command -v python3)" && is_there && exit 0
fi
if python3 -m pip --version >/dev/null 2>&1; then
  into_folder python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check && is_there && exit 0
fi
if ! python3 -c 'import ensurepip' >/dev/null 2>&1; then "$here/install-apt.sh" required python3-venv; fi
into_environment
is_there
