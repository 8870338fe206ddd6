#!/usr/bin/env bash
# First program of the pod flashnext-blackwell. Written by podwright: edit the spec, not this file.
# It looks at the host, sets the environment, completes what the image lacks, and hands over to the runtime.
set -eEuo pipefail

# PODWRIGHT_ROOT moves every path of this script below another folder, so that it can be tried outside a pod.
readonly ROOT="${PODWRIGHT_ROOT:-}"
readonly POD_HOME="$ROOT/opt/podwright" LOG_DIR="$ROOT/var/log/podwright"
PHASE=start

# Facts of this profile.
readonly PROFILE=flashnext-blackwell
readonly PREBAKED=1
readonly UV_VERSION=0.13.9
readonly ENGINE_REQUIREMENT=vllm==0.27.1
readonly ENGINE_CUDA=13.0
readonly MIN_DRIVER=580
readonly COMPAT_DIR=/usr/local/cuda-13.0/compat
readonly CUDA_TOOLKIT=/usr/local/cuda-13.0
readonly GPU_COUNT=1
readonly GPU_NAME='NVIDIA RTX PRO 6000 Blackwell Server Edition'
readonly SAMPLER=off
readonly FASTOKENS=0
readonly ENDPOINT_PORT=8080
readonly ENGINE_PORT=18081
readonly FOLLOWS=0
readonly HF_HOME_DEFAULT=/root/.cache/huggingface
readonly DOWNLOAD_GB=136
readonly NEEDED_GB=155
readonly DISK_GB=200
readonly -a OVERRIDES=(
  'VL_CTX|Context window in tokens.|[1-9][0-9]{2,7}'
  'VL_YARN|off: serve the native window, without YaRN.|(on|off)'
  'VL_YARN_FACTOR|YaRN factor.|[1-9](\.[0-9]{1,3})?'
  'VL_KV|Data type of the KV cache.|(auto|bfloat16|fp8|fp8_e4m3|fp8_e5m2|turboquant_[a-z0-9_]{1,24})'
  'VL_UTIL|Share of the card that the engine may plan with.|0\.[0-9]{1,3}'
  'VL_KVBYTES|A fixed KV cache in bytes for each GPU.|[1-9][0-9]{6,12}'
  'VL_BATCHED|Tokens in one scheduling step.|[1-9][0-9]{2,7}'
  'VL_LONGPREFILL|Prompts above this many tokens count as long.|[1-9][0-9]{2,7}'
  'VL_SEQS|Sequences decoded at once.|[1-9][0-9]{0,6}'
  'VL_ATTN|Attention kernels.|[A-Z][A-Z0-9_]{1,40}'
  'VL_ASYNC|Prepare the next step while the GPU works.|(on|off)'
  'VL_EP|Spread experts over GPUs.|(on|off)'
  'VL_OPT|Compilation effort.|[0-3]'
  'VL_DP|Replicas of the model.|[1-8]'
  'VL_TP|GPUs that share each layer.|[1-8]'
  'VL_MOE_BACKEND|Kernels of the routed experts.|[a-z][a-z0-9_]{1,40}'
  'VL_LINEAR_BACKEND|Kernels of quantized dense layers.|[a-z][a-z0-9_]{1,40}'
  'VL_MAMBA_BACKEND|Kernels of the state-space layers.|(flashinfer|triton)'
  'VL_MAMBA_DTYPE|Data type of the recurrent state.|(float16|float32)'
  'VL_STOCHASTIC|Round float16 states of state-space layers at random, without Triton on sm_89.|(on|off)'
  'VL_REPLAYSSM|Keep recent inputs of state-space layers instead of writing their state at each step.|(on|off)'
  'VL_SSU|How FlashInfer updates states of state-space layers.|(auto|simple|vertical|horizontal)'
  'VL_OFFLOAD|Host memory for evicted KV blocks, in GiB.|[1-9][0-9]{0,3}'
  'VL_NUMA|Bind workers to NUMA nodes; give the nodes too.|(on|off)'
  'VL_NUMA_NODES|NUMA nodes, separated by spaces.|[0-9]( [0-9]){0,7}'
  'VL_NOVIDEO|on: refuse videos.|(on|off)'
  'VL_MM_IMAGES|Images in one request.|[0-9]{1,2}'
  'VL_SPEC|Method of speculative decoding; off is always safe.|(off|ngram|mtp|dspark|dflash)'
  'VL_SPEC_N|Draft tokens for each step.|[1-9][0-9]?'
  'VL_LOOK_MIN|Shortest n-gram looked up.|[1-9][0-9]?'
  'VL_LOOK_MAX|Longest n-gram looked up.|[1-9][0-9]?'
  'VL_MTP_N|MTP depth.|[1-8]'
  'VL_DSPARK_MODEL|Draft model of dspark.|[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*'
  'VL_DSPARK_N|Draft tokens of dspark.|[1-9][0-9]?'
  'VL_DFLASH2_MODEL|Draft model of dflash.|[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*'
  'VL_DFLASH2_N|Draft tokens of dflash.|[1-9][0-9]?'
  'VL_ALIASES|Further served names, separated by spaces.|[A-Za-z0-9][A-Za-z0-9._/:-]*(\[1m\])?( [A-Za-z0-9][A-Za-z0-9._/:-]*(\[1m\])?){0,31}'
  'VL_BRIDGE|What listens on the public port.|(on|off|keepalive)'
  'VL_PORT|The engine'"'"'s own port.|[1-9][0-9]{2,4}'
  'VL_PROXY_PORT|The port that clients reach.|[1-9][0-9]{2,4}'
  'VL_HFOFFLINE|Whether the engine may ask the Hub.|(auto|on|off)'
  'VL_FLASHINFER|The flashinfer sampler, which is compiled at the first start.|(on|off)'
)
readonly -a PORTS=(
  8080
  18081
)
readonly -a PACKAGES=(
  '1|transformers==5.16.1'
  '1|tokenizers==0.23.1'
  '1|xxhash==4.1.0'
)
readonly PYTHON="$POD_HOME/engine-python" HF_CACHE="${HF_HOME:-$ROOT$HF_HOME_DEFAULT}"
readonly WANTED_MANIFEST="${1:-}"

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

# VL_* variables: emergency levers of the pod's environment, from one table. A typo must not pass as a lever.

phase_overrides() {
  local row name rest effect pattern value
  local -A known=()
  for row in "${OVERRIDES[@]}"; do
    name=${row%%|*}
    rest=${row#*|}
    effect=${rest%%|*}
    pattern=${rest#*|}
    known["$name"]=1
    value=${!name:-}
    [ -n "$value" ] || continue
    if [[ ! $value =~ ^($pattern)$ ]]; then
      fatal "$name does not have a value that it may have ($effect)" "set $name to something that matches $pattern, or remove it, and start a new pod"
    fi
    log "$name=$value is set: $effect"
  done
  while IFS= read -r name; do
    [ -n "${known[$name]:-}" ] || warn "$name is set and means nothing to this profile; known are: ${!known[*]}"
  done < <(compgen -e VL_ || true)
}

# Room for the weights. A disk that fills up during a download fails an hour in, with an error about something else.

phase_disk() {
  local folder=$HF_CACHE free_kb cached_kb=0 line
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  line=$(df -Pk "$folder" | tail -n 1)
  read -r _ _ _ free_kb _ <<<"$line"
  if [ -d "$HF_CACHE" ]; then
    line=$(du -sk "$HF_CACHE")
    cached_kb=${line%%[!0-9]*}
  fi
  local free_gb=$((free_kb * 1024 / 1000000000)) cached_gb=$((cached_kb * 1024 / 1000000000))
  log "disk: $free_gb GB free below $folder, $cached_gb GB cached there, $DOWNLOAD_GB GB to download, $NEEDED_GB GB planned"
  if ((free_gb + cached_gb < DOWNLOAD_GB)); then
    fatal "the checkpoint takes $DOWNLOAD_GB GB and $folder has $free_gb GB free ($cached_gb GB of the cache is there already)" \
      "start a new pod with a container disk of at least $DISK_GB GB, or mount a volume at $folder"
  fi
  ((free_gb + cached_gb >= NEEDED_GB)) || warn "less free disk than the plan asks for ($NEEDED_GB GB): compile caches and logs may fill it"
}

# The host's driver. It is drawn by lot at a provider, and the engine's CUDA build does not bend to it.

DRIVER=""
HOST_CUDA="unknown"
NEED_COMPAT=0

phase_driver() {
  local report line
  if ! report=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1); then
    fatal "nvidia-smi gives no driver: ${report%%$'\n'*}" "this engine needs an NVIDIA GPU; start the pod on a GPU host, or the container with --gpus all"
  fi
  DRIVER=${report%%$'\n'*}
  while IFS= read -r line; do
    if [[ $line =~ CUDA\ Version:\ ([0-9]+\.[0-9]+) ]]; then HOST_CUDA=${BASH_REMATCH[1]}; fi
  done < <(nvidia-smi 2>/dev/null || true)
  log "driver $DRIVER, CUDA of the driver $HOST_CUDA, CUDA of the engine $ENGINE_CUDA"
  if [[ ! ${DRIVER%%.*} =~ ^[0-9]+$ ]]; then
    fatal "nvidia-smi names no driver version: $DRIVER" "delete this pod and create another: the host's driver does not work"
  fi
  if ((${DRIVER%%.*} >= MIN_DRIVER)); then
    log "driver $DRIVER runs CUDA $ENGINE_CUDA by itself: cuda-compat stays out of the library path"
    return 0
  fi
  NEED_COMPAT=1
  if [ "$PREBAKED" = 1 ]; then activate_compat; fi
}

# cuda-compat is a newer user-space driver over an older kernel module. Only below MIN_DRIVER: over a newer driver it would
# be the older of the two. It goes first, and the engine's own CUDA libraries never go in at all.
activate_compat() {
  [ "$NEED_COMPAT" = 1 ] || return 0
  if [ -z "$COMPAT_DIR" ] || ! compgen -G "$ROOT$COMPAT_DIR/libcuda.so*" >/dev/null; then
    fatal "driver $DRIVER offers CUDA $HOST_CUDA, the engine needs CUDA $ENGINE_CUDA, and this image has no cuda-compat to bridge them" \
      "delete this pod and create one that is pinned to CUDA $ENGINE_CUDA (allowedCudaVersions), or use an image with cuda-compat"
  fi
  host_env LD_LIBRARY_PATH "$ROOT$COMPAT_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  log "driver $DRIVER is older than $MIN_DRIVER: $COMPAT_DIR is first in the library path"
}

# The ports must be free: official provider images start an nginx on some, and a leftover engine holds its own.
# The kernel's table is read directly, because small images have neither ss nor netstat.

phase_ports() {
  local port checked="" listening
  listening=$(listening_sockets)
  for port in "${PORTS[@]}"; do
    if [ "$port" = "$ENDPOINT_PORT" ]; then port=${VL_PROXY_PORT:-$port}; fi
    if [ "$port" = "$ENGINE_PORT" ]; then port=${VL_PORT:-$port}; fi
    port_is_free "$port" "$listening"
    checked="$checked $port"
  done
  log "free ports:$checked"
}

# `PORT_IN_HEX INODE` of each listening socket. Bash reads these files byte by byte, and the kernel builds the table anew for
# each read, so they are read whole by a program.
listening_sockets() {
  local table
  for table in /proc/net/tcp /proc/net/tcp6; do
    if [ -r "$table" ]; then cat "$table"; fi
  done | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F:]* 0A [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\1 \2/p'
}

port_is_free() {
  local hex port inode
  printf -v hex '%04X' "$1"
  while read -r port inode; do
    if [ "$port" = "$hex" ]; then
      fatal "port $1 is taken by $(socket_owner "$inode")" "stop that program, or give the profile another engine_port or bridge.port and build it again"
    fi
  done <<<"$2"
}

socket_owner() {
  local descriptor pid
  for descriptor in /proc/[0-9]*/fd/*; do
    if [ "$(readlink "$descriptor" 2>/dev/null)" = "socket:[$1]" ]; then
      pid=${descriptor#/proc/}
      pid=${pid%%/*}
      printf 'process %s (%s)' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      return 0
    fi
  done
  printf 'a process outside this container or of another user'
}

# GPUs, twice: as the driver lists them before anything is installed, and as torch can use them. Hosts exist where the two
# differ; nothing done inside a container mends those.

SMI_COUNT=0

phase_gpu() {
  local line name found=0
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    log "gpu $line"
    found=$((found + 1))
    name=${line#*, }
    name=${name%%,*}
    [ "$name" = "$GPU_NAME" ] || warn "this GPU is a $name; the plan was made for $GPU_NAME"
  done < <(nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader 2>/dev/null || true)
  SMI_COUNT=$found
  if ((found < GPU_COUNT)); then
    fatal "the driver lists $found GPUs and the profile needs $GPU_COUNT" "delete this pod and create another with $GPU_COUNT x $GPU_NAME"
  fi
}

phase_torch() {
  local key value version="" available="" count=0 problem=""
  while IFS='=' read -r key value; do
    case $key in
      version) version=$value ;;
      available) available=$value ;;
      count) count=$value ;;
      gpu) log "torch sees $value" ;;
      problem) problem=$value ;;
    esac
  done < <(tool torch_probe 2>&1 || true)
  if [ "$available" != True ]; then
    fatal "torch ${version:-(not importable)} finds no usable GPU: ${problem:-no reason given} (driver $DRIVER, CUDA $HOST_CUDA, library path ${LD_LIBRARY_PATH:-empty})" \
      "pin the pod to CUDA $ENGINE_CUDA and create it again; if the driver is $MIN_DRIVER or newer, the host is sick: delete the pod"
  fi
  if ((count != SMI_COUNT)) || [ -n "$problem" ]; then
    fatal "sick host: the driver lists $SMI_COUNT GPUs, torch can use $count${problem:+, and $problem}" \
      "delete this pod and create another: nothing inside a container repairs a GPU that is listed and cannot be used"
  fi
  log "torch $version uses $count GPUs"
}

# The CUDA compiler and headers. Kernels are compiled at the first start; a warm compile cache hides a missing compiler until
# some setting changes, so it is looked for every time, whatever the driver.

phase_toolkit() {
  local home="$ROOT$CUDA_TOOLKIT" sampler=${VL_FLASHINFER:-$SAMPLER}
  unset CUDA_HOME
  if [ -n "$CUDA_TOOLKIT" ] && [ -x "$home/bin/nvcc" ]; then
    host_env CUDA_HOME "$home"
    export PATH="$home/bin:$PATH"
    log "nvcc at $home/bin/nvcc"
  else
    warn "no CUDA $ENGINE_CUDA compiler: kernels that are compiled at the first start will fail (image: cuda-nvcc)"
  fi
  if [ "$sampler" = on ] && [ -x "$home/bin/nvcc" ] && [ -f "$home/include/curand.h" ]; then
    host_env VLLM_USE_FLASHINFER_SAMPLER 1
    log "flashinfer sampler on: compiler and curand.h are there"
    return 0
  fi
  [ "$sampler" = off ] || warn "flashinfer sampler off: $home/include/curand.h or the compiler is missing, and its build would stop the engine"
  host_env VLLM_USE_FLASHINFER_SAMPLER 0
  log "flashinfer sampler off"
}

# Python distributions on top of the engine. What is looked for, tried and taken back is decided by the runtime's own program.

phase_extras() {
  local row
  local -a rows=()
  patches has "$ENGINE_REQUIREMENT" >/dev/null || warn "the installed engine is not $ENGINE_REQUIREMENT"
  for row in "${PACKAGES[@]}"; do
    if [[ ${row#*|} == humming-kernels* ]] && [ "${VL_HUMMING_EXTRAS:-on}" = off ]; then continue; fi
    rows+=("$row")
  done
  if patches has "${rows[@]#*|}" >/dev/null; then
    log "all of ${#rows[@]} extra distributions are installed"
  else
    "$POD_HOME/common/install-uv.sh" "$UV_VERSION" 2>&1 | prefixed install || warn "the installer cannot be fetched"
    patches packages --install "$POD_HOME/common/install-extra.sh" --python "$PYTHON" "${rows[@]}" 2>&1 | prefixed extras \
      || fatal "a Python distribution cannot be installed and this profile cannot serve without it" "read the lines above; bake it into the image (container.extras), or remove what needs it"
  fi
  choose_tokenizer
}

patches() { PYTHONPATH="$POD_HOME/runtime${PYTHONPATH:+:$PYTHONPATH}" "$PYTHON" -m pod.patches "$@"; }

choose_tokenizer() {
  [ "$FASTOKENS" = 1 ] || [ "${VL_FASTOK:-}" = 1 ] || return 0
  if [ "${VL_FASTOK:-1}" = 1 ] && patches has "fastokens>=0.2.0" >/dev/null; then
    host_env VLLM_USE_FASTOKENS 1
    return 0
  fi
  warn "fast tokenizer off: fastokens is missing or switched off; the standard tokenizer serves"
  host_env VLLM_USE_FASTOKENS 0
}

# Hands over: the runtime takes this process's place, so signals reach it.

phase_runtime() {
  local manifest="$POD_HOME/manifest.json" found
  [ -x "$PYTHON" ] || fatal "$PYTHON does not exist: nobody has looked for the engine in this image" "build the image again with make image, and do not start a base image as a prebaked one"
  [ -f "$manifest" ] || fatal "$manifest does not exist" "build the image again: its last layers hold the manifest"
  found=$(sha256_of "$manifest")
  if [ -n "$WANTED_MANIFEST" ] && [ "$found" != "$WANTED_MANIFEST" ]; then
    [ "$FOLLOWS" = 1 ] || fatal "this image holds another build of the profile (manifest $found, the pod was created for $WANTED_MANIFEST)" "push the image again after make image, then start a new pod"
    warn "this image holds an older build (manifest $found); the published manifest decides"
  fi
  PODWRIGHT_HOST_ENV=$(host_env_json)
  export PODWRIGHT_HOST_ENV PYTHONPATH="$POD_HOME/runtime${PYTHONPATH:+:$PYTHONPATH}"
  log "starting the runtime with manifest $found"
  trap - ERR
  exec "$PYTHON" -m pod --manifest "$manifest" run
}

main() {
  local phase
  mkdir -p "$LOG_DIR"
  log "podwright bootstrap 9b9239d0fc60, profile $PROFILE, engine $ENGINE_REQUIREMENT"
  trap 'fatal "phase $PHASE failed at line $LINENO: $BASH_COMMAND" "read the lines above; this is not a state that the script knows"' ERR
  forget_last_run
  if [ -f "$ROOT/opt/.image_prebaked" ]; then log "image: $(<"$ROOT/opt/.image_prebaked")"; fi
  for phase in overrides disk driver ports gpu toolkit torch extras runtime; do
    PHASE=$phase
    "phase_$phase"
  done
}

main
