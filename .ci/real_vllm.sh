#!/usr/bin/env bash
# Make the environment of a real engine release for the tests, where `podwright verify` looks for one, too. Prints its folder on
# the last line of stdout; system packages that are missing are installed.
#
#   .ci/real_vllm.sh [RELEASE]
#
# Exit status 3, with a line that begins with SKIPPED: no Python that the engine runs on.
set -euo pipefail

release="${1:-0.27.1}"
parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PODWRIGHT_MAY_INSTALL=1
exec "$here/images/engine/judge/make_environment.sh" "$release" "$parts/vllm-$release" "$here/specs/engines/locks/vllm-$release.txt"
