#!/usr/bin/env bash
# install-apt.sh required|optional NAME...: system packages one by one. In one apt call a single wrong name installs
# nothing and is not even named. A missing required package fails; a missing optional one is written down and logged at boot.
set -euo pipefail

kind=$1
shift
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
missing=()
for name in "$@"; do
  if apt-get install -y -qq --no-install-recommends "$name" >/dev/null 2>/tmp/apt-error; then
    echo "installed $name"
  else
    missing+=("$name")
    echo "MISSING $name: $(tail -n 1 /tmp/apt-error)"
  fi
done
rm -rf /var/lib/apt/lists/* /tmp/apt-error
if ((${#missing[@]} == 0)); then exit 0; fi
if [ "$kind" = required ]; then
  echo "cannot go on without: ${missing[*]}" >&2
  exit 1
fi
mkdir -p /opt/podwright
printf '%s\n' "${missing[@]}" >>/opt/podwright/missing-apt
