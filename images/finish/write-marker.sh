#!/usr/bin/env bash
# write-marker.sh RECIPE REQUIREMENT: the file by which a bootstrap knows a prebaked image, where its engine is, and what it lacks.
set -euo pipefail

home=/opt/podwright
{
  printf 'recipe=%s engine=%s python=%s' "$1" "$2" "$("$home/engine-python" -c 'import sys; print(sys.executable)')"
  if [ -s "$home/missing-apt" ]; then printf ' missing=%s' "$(paste -s -d, "$home/missing-apt")"; fi
  printf '\n'
} >/opt/.image_prebaked
cat /opt/.image_prebaked
