# shellcheck shell=bash
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
