# shellcheck shell=bash
# The remote desktop is started by the runtime; what it lacks is said here. A known default password is worse than none.

phase_desktop() {
  if [ -z "${!DESKTOP_PASSWORD_ENV:-}" ]; then
    warn "no remote desktop: the secret $DESKTOP_PASSWORD_ENV is empty, and a desktop on the public internet without a password is not started"
  elif ! command -v x11vnc >/dev/null || ! command -v websockify >/dev/null; then
    warn "no remote desktop: this image was built without it"
  else
    log "remote desktop: ready to be started by the runtime"
  fi
}
