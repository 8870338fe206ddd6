#!/usr/bin/env bash
# Install what the image's desktop layer installs, by the names that the emitted Dockerfile has, and a browser to look at it with.
# Prints the browser's program on the last line of stdout. Quick when all is there. Exit status 3, with a line that begins with
# SKIPPED: not root, no apt, or no such packages on this machine.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf 'real_desktop: %s\n' "$*" >&2; }

# The line of the template is the one truth about the names.
packages() {
  sed -n 's/^RUN .*install-apt.sh required \(.*x11vnc.*\)$/\1/p' "$here/templates/dockerfile/extras.j2" | tr ' ' '\n'
  printf 'chromium\n'
}

main() {
  local missing=() package
  while read -r package; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' || missing+=("$package")
  done < <(packages)
  if [ "${#missing[@]}" != 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
      say "SKIPPED: ${missing[*]} missing and not root on a machine with apt"
      exit 3
    fi
    say "installing ${missing[*]}"
    apt-get update -qq >&2
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; then
      say "SKIPPED: ${missing[*]} cannot be installed on this machine"
      exit 3
    fi
  fi
  command -v chromium
}

main
