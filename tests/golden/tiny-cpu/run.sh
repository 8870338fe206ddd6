#!/usr/bin/env bash
# Serves tiny-cpu on this machine, at http://127.0.0.1:8080 until Ctrl-C.
#   ./run.sh [OPTIONS OF docker run]     for instance: ./run.sh --detach
# PODWRIGHT_PORT is another port of this machine for it.
# PODWRIGHT_SECRETS is the file with the secrets, one NAME=VALUE a line; otherwise secrets.env beside this script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
secrets=${PODWRIGHT_SECRETS:-$here/secrets.env}
if [ ! -f "$secrets" ]; then
  echo "run.sh: $secrets does not exist; copy $here/secrets.env.example there and fill it in" >&2
  exit 1
fi
if ! grep -q '^PODWRIGHT_API_KEY=.' "$secrets"; then
  echo "run.sh: PODWRIGHT_API_KEY has no value in $secrets" >&2
  exit 1
fi

arguments=(
  --rm --name podwright-tiny-cpu --stop-timeout 30
  --ipc host
  --mount 'type=volume,src=podwright-tiny-cpu-cache,dst=/root/.cache/vllm'
  --env HF_HOME=/root/.cache/huggingface
  --env HF_HUB_DISABLE_PROGRESS_BARS=1
  --env HF_XET_HIGH_PERFORMANCE=1
  --env VLLM_CACHE_ROOT=/root/.cache/vllm
  --env VLLM_NO_USAGE_STATS=1
  --publish "127.0.0.1:${PODWRIGHT_PORT:-8080}:8080"
  --env-file "$secrets"
)
# These words belong to the container: nothing in them is for this shell.
# shellcheck disable=SC2016
command=(
  /opt/podwright/bootstrap.sh
  2fdb644502b947c5b9d8830d984967574b90da78f143d8aebb2f1d1c98de2cb6
)
exec docker run "${arguments[@]}" "$@" podwright/tiny-cpu:0.27.1 "${command[@]}"
