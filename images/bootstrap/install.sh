# shellcheck shell=bash
# Installs the engine where the image does not bring it. The marker of a prebaked image ends this phase: nothing that was
# measured in an image may be replaced by whatever an index offers today.

phase_install() {
  if [ -f "$ROOT/opt/.image_prebaked" ] && [ -x "$PYTHON" ]; then
    log "prebaked image: nothing to install"
    activate_compat
    return 0
  fi
  if ((${#BUILD_APT[@]})); then
    "$POD_HOME/common/install-apt.sh" required "${BUILD_APT[@]}" 2>&1 | prefixed apt \
      || fatal "a system package cannot be installed" "read the lines above; use a prebaked image if the pod has no package mirror"
  fi
  if ((${#CUDA_APT[@]})); then "$POD_HOME/common/install-apt.sh" optional "${CUDA_APT[@]}" 2>&1 | prefixed apt; fi
  activate_compat
  if [ -n "$VENV" ] && [ ! -x "$ROOT$VENV/bin/vllm" ]; then
    "$POD_HOME/common/install-engine.sh" "$ROOT$VENV" "$PYTHON_VERSION" "$UV_VERSION" "$POD_HOME/lock" "$ENGINE_REQUIREMENT" 2>&1 | prefixed install \
      || fatal "the engine cannot be installed" "read the lines above; a prebaked image does not depend on an index at start"
  fi
  "$POD_HOME/common/find-engine.sh" "${ENGINE_REQUIREMENT%%==*}" ${VENV:+"$ROOT$VENV/bin/python"} 2>&1 | prefixed install \
    || fatal "no Python of this container has the engine" "the base image is not what the engine spec says, or the installation failed above"
}
