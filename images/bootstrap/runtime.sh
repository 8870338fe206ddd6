# shellcheck shell=bash
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
