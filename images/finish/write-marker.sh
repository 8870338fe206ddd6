#!/usr/bin/env bash
# write-marker.sh RECIPE REQUIREMENT: the file by which a bootstrap knows a prebaked image, and what it lacks.
set -euo pipefail

mkdir -p /opt/podwright
{
  printf 'recipe=%s engine=%s' "$1" "$2"
  if [ -s /opt/podwright/missing-apt ]; then printf ' missing=%s' "$(paste -s -d, /opt/podwright/missing-apt)"; fi
  printf '\n'
} >/opt/.image_prebaked
cat /opt/.image_prebaked
