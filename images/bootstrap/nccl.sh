# shellcheck shell=bash
# NCCL settings in the file that NCCL itself reads: the engine's worker processes do not inherit the variables, and two
# cards without peer-to-peer access then spin for ever at the first collective.

phase_nccl() {
  printf '%s\n' "${NCCL_CONF[@]}" >"$HOME/.nccl.conf"
  log "NCCL: ${NCCL_CONF[*]} in $HOME/.nccl.conf"
}
