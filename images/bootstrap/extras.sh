# shellcheck shell=bash
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
