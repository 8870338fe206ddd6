# shellcheck shell=bash
# Python distributions on top of the engine, each by itself: one that fails must not keep the next from being tried.

phase_extras() {
  local row requirement required name state before
  local -a wanted=("${PACKAGES[@]#*|}")
  if [ "$(tool distribution "$ENGINE_REQUIREMENT")" != ok ]; then
    warn "the installed engine is not $ENGINE_REQUIREMENT"
  fi
  for row in "${PACKAGES[@]}"; do
    required=${row%%|*}
    requirement=${row#*|}
    name=${requirement%%[!A-Za-z0-9._-]*}
    if [ "$name" = humming-kernels ] && [ "${VL_HUMMING_EXTRAS:-on}" = off ]; then continue; fi
    state=$(tool distribution "$requirement")
    if [ "$state" = ok ]; then
      log "$requirement is installed"
      continue
    fi
    before=${state#other }
    log "$requirement: $state; installing"
    if install_extra "$requirement" "${wanted[@]}" 2>&1 | prefixed install && still_imports "$name" "$before" "${wanted[@]%%==*}"; then continue; fi
    [ "$required" = 0 ] || fatal "$requirement cannot be installed and this profile cannot serve without it" "bake it into the image (container.extras), or remove what needs it"
    warn "$requirement cannot be installed; going on without it"
  done
  choose_tokenizer
}

# install_extra REQUIREMENT WANTED...: what is installed is held at its version, but for these, which a bare name sets free.
install_extra() { "$POD_HOME/common/install-uv.sh" "$UV_VERSION" && "$POD_HOME/common/install-extra.sh" "$PYTHON" "$@"; }

# still_imports NAME BEFORE WANTED...: an upgrade of transformers that does not import goes back to what was there.
still_imports() {
  [ "$1" = transformers ] || return 0
  "$PYTHON" -c 'import transformers; transformers.AutoConfig' 2>&1 | tail -n 1 | prefixed transformers && return 0
  [[ $2 =~ ^[0-9] ]] || return 1
  warn "the new transformers does not import; going back to $2"
  install_extra "transformers==$2" "${@:3}" 2>&1 | prefixed install || warn "transformers $2 could not be restored"
  return 1
}

choose_tokenizer() {
  [ "$FASTOKENS" = 1 ] || [ "${VL_FASTOK:-}" = 1 ] || return 0
  if [ "${VL_FASTOK:-1}" = 1 ] && [[ $(tool distribution "fastokens>=0.2.0") == ok ]]; then
    host_env VLLM_USE_FASTOKENS 1
    return 0
  fi
  warn "fast tokenizer off: fastokens is missing or switched off; the standard tokenizer serves"
  host_env VLLM_USE_FASTOKENS 0
}
