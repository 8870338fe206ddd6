# shellcheck shell=bash
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
