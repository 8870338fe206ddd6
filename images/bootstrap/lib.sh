# shellcheck shell=bash
# What every phase uses: where things lie, the log, the end of the road, and the environment that the runtime gets.

declare -A HOST_ENV=()
HOLDER=0

log() {
  local now line
  TZ=UTC0 printf -v now '%(%H:%M:%S)T' -1
  line="[bootstrap] $now $*"
  printf '%s\n' "$line"
  printf '%s\n' "$line" >>"$LOG_DIR/bootstrap.log" 2>/dev/null || true
}

# fatal CAUSE FIX: a container that exits is started again at once, and again: the log scrolls away and the rent runs.
# So the container stays open, says why, and ends when it is told to.
fatal() {
  trap - ERR
  set +eE
  log "FATAL $1"
  log "FIX   $2"
  ((BASH_SUBSHELL == 0)) || exit 1
  printf 'phase: %s\ncause: %s\nfix: %s\n' "$PHASE" "$1" "$2" >"$LOG_DIR/fatal.log"
  log "the container stays open so that this can be read; nothing is served; SIGTERM ends it"
  trap 'kill "$HOLDER" 2>/dev/null; log "stopped"; exit 143' TERM INT
  while true; do
    sleep 3600 &
    HOLDER=$!
    wait "$HOLDER"
  done
}

warn() { log "WARNING $*"; }

# host_env NAME VALUE: a fact about this host, which wins over what the manifest says.
host_env() {
  export "$1=$2"
  HOST_ENV["$1"]=$2
}

# tool NAME ARGUMENTS: one of the Python programs beside this script, under the engine's Python.
tool() { "$PYTHON" "$POD_HOME/bootstrap/$1.py" "${@:2}"; }

json_string() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//[[:cntrl:]]/ }
  printf '"%s"' "$text"
}

host_env_json() {
  local name separator=""
  printf '{'
  while IFS= read -r name; do
    [ -n "$name" ] || continue
    printf '%s%s: %s' "$separator" "$(json_string "$name")" "$(json_string "${HOST_ENV[$name]}")"
    separator=", "
  done < <(printf '%s\n' "${!HOST_ENV[@]}" | LC_ALL=C sort)
  printf '}'
}

# prefixed LABEL: standard input, line by line, into the log.
prefixed() {
  local line
  while IFS= read -r line || [ -n "$line" ]; do log "$1: $line"; done
}

# hub_download REPO FILE TARGET: a file of a Hub repository. The token goes in on standard input, never as an argument.
hub_download() {
  local url="${HF_ENDPOINT:-https://huggingface.co}/$1/resolve/main/$2"
  if [ -n "${HF_TOKEN:-}" ]; then
    printf 'Authorization: Bearer %s\n' "$HF_TOKEN" | curl -fsSL --retry 3 --max-time 300 -H @- -o "$3" "$url"
  else
    curl -fsSL --retry 3 --max-time 300 -o "$3" "$url"
  fi
}

sha256_of() {
  local sum
  sum=$(sha256sum "$1")
  printf '%s' "${sum%% *}"
}

# A script that runs again inherits what its last run exported: every derived value starts from nothing.
forget_last_run() {
  local part kept=""
  local -a parts=()
  unset HF_HUB_OFFLINE VLLM_USE_FLASHINFER_SAMPLER PODWRIGHT_HOST_ENV
  IFS=: read -r -a parts <<<"${LD_LIBRARY_PATH:-}"
  for part in "${parts[@]}"; do
    if [ -n "$part" ] && [[ $part != */cuda*/compat ]]; then kept="${kept:+$kept:}$part"; fi
  done
  if [ -n "$kept" ]; then export LD_LIBRARY_PATH="$kept"; else unset LD_LIBRARY_PATH; fi
  if [[ ${PYTORCH_CUDA_ALLOC_CONF:-} == *expandable_segments:True* ]]; then
    warn "PYTORCH_CUDA_ALLOC_CONF asked for expandable_segments, which fails in a container (pidfd_getfd: not permitted); removed"
    unset PYTORCH_CUDA_ALLOC_CONF
  fi
}
