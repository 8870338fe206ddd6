# shellcheck shell=bash
# What a public base image lacks: the runtime, the manifest and the installers, in one archive whose sha256 this script
# knows. It came inside the start command, or comes from the publish repository; either way it is verified before use.

phase_payload() {
  local archive="$POD_HOME/payload.tar.bz2" tool
  for tool in python3 curl; do
    command -v "$tool" >/dev/null || install_tools
  done
  if [ ! -f "$archive" ]; then
    [ -n "$PAYLOAD_REPO" ] || fatal "the start command carries no payload and the profile publishes nowhere" "build the bundle again and use its own start-command.json"
    hub_download "$PAYLOAD_REPO" "payload/$PAYLOAD_SHA256.tar.bz2" "$archive" \
      || fatal "the payload cannot be fetched from $PAYLOAD_REPO" "publish the bundle first; a private repository needs the secret HF_TOKEN"
  fi
  [ "$(sha256_of "$archive")" = "$PAYLOAD_SHA256" ] \
    || fatal "the payload's sha256 is not $PAYLOAD_SHA256" "publish the bundle again; if that does not help, somebody changed the file"
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:bz2").extractall(sys.argv[2])' "$archive" "$POD_HOME"
  log "payload $PAYLOAD_SHA256 verified and unpacked"
}

install_tools() {
  apt-get update -qq >/dev/null 2>&1 || warn "apt-get update failed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv curl ca-certificates >/dev/null \
    || fatal "python3 and curl cannot be installed" "start the pod from an image that has them, or use a prebaked image"
}
