#!/usr/bin/env bash
# Serves swift-2x4090 on this machine, at http://127.0.0.1:8080 until Ctrl-C.
#   ./run.sh [OPTIONS OF docker run]     for instance: ./run.sh --detach
# PODWRIGHT_PORT is another port of this machine for it.
# PODWRIGHT_SECRETS is the file with the secrets, one NAME=VALUE a line; otherwise secrets.env beside this script.
set -euo pipefail

# The documents name no repository for these weights: this variable says where they lie on this machine.
if [ ! -f "${PODWRIGHT_MODEL_SWIFT_QWEN38_27B:-/nonexistent}/config.json" ]; then
  echo 'run.sh: set PODWRIGHT_MODEL_SWIFT_QWEN38_27B to the folder with the weights (it holds config.json)' >&2
  exit 1
fi

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
  --rm --name podwright-swift-2x4090 --stop-timeout 30
  --gpus 2
  --ipc host
  --mount 'type=volume,src=podwright-swift-2x4090-cache,dst=/root/.cache/vllm'
  --env HF_HOME=/root/.cache/huggingface
  --env HF_HUB_DISABLE_PROGRESS_BARS=1
  --env HF_XET_HIGH_PERFORMANCE=1
  --env VLLM_CACHE_ROOT=/root/.cache/vllm
  --env VLLM_NO_USAGE_STATS=1
  --publish "127.0.0.1:${PODWRIGHT_PORT:-8080}:8080"
  --mount "type=bind,readonly,src=$PODWRIGHT_MODEL_SWIFT_QWEN38_27B,dst=/models/swift"
  --env-file "$secrets"
)
# These words belong to the container: nothing in them is for this shell.
# shellcheck disable=SC2016
command=(
  /opt/podwright/bootstrap.sh
  72dbba7a12be302c6a3e1ab981ce16926222106a97833cf869ddf804ca8d39ee
)
exec docker run "${arguments[@]}" "$@" podwright/swift-2x4090:0.27.1 "${command[@]}"
