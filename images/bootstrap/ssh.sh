# shellcheck shell=bash
# A shell on the pod: key login only, started first so that a pod that fails can be looked at.

phase_ssh() {
  local run_dir="$ROOT/run/sshd"
  if [ -z "${PUBLIC_KEY:-}" ]; then
    warn "sshd is not started: PUBLIC_KEY is empty, and there is no password login"
    return 0
  fi
  if ! command -v sshd >/dev/null; then
    warn "sshd is not installed in this image"
    return 0
  fi
  mkdir -p "$HOME/.ssh" "$run_dir"
  chmod 700 "$HOME/.ssh"
  printf '%s\n' "$PUBLIC_KEY" >"$HOME/.ssh/authorized_keys"
  chmod 600 "$HOME/.ssh/authorized_keys"
  ssh-keygen -A >/dev/null 2>&1 || warn "host keys could not be made"
  "$(command -v sshd)" -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o PermitRootLogin=prohibit-password \
    || warn "sshd did not start"
  log "sshd listens on port 22 for the pod's public key"
}
