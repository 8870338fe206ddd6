# shellcheck shell=bash
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
