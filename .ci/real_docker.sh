#!/usr/bin/env bash
# Start a real Docker engine and give it a stand-in for a base image, to build the emitted Dockerfiles and run what they build
# on a machine that can reach package registries only. Prints `DOCKER_HOST=... PODWRIGHT_BASE_IMAGE=...` on the last line of
# stdout, ready for `env`. Quick when both are there. `stop` as the only argument ends the engine that this script started.
#
#   .ci/real_docker.sh [start|stop]
#
# Exit status 3, with a line that begins with SKIPPED: not root, or no apt.
set -euo pipefail

parts="${PODWRIGHT_REAL_PARTS_DIR:-${HOME:-/root}/.cache/podwright/real-parts}"
folder="$parts/docker"
base_image="podwright/base-stand-in:bookworm"
suite="bookworm"
# The socket's path must stay below the 108 bytes that Unix allows, so it does not lie in the parts folder.
run_dir="${PODWRIGHT_DOCKER_RUN_DIR:-/run/podwright-docker}"
export DOCKER_HOST="unix://$run_dir/docker.sock"

say() { printf 'real_docker: %s\n' "$*" >&2; }

running() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

install_packages() {
  local missing=() package
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  [ "${#missing[@]}" = 0 ] && return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "SKIPPED: ${missing[*]} missing and not root on a machine with apt"
    exit 3
  fi
  say "installing ${missing[*]}"
  apt-get update -qq >&2
  for package in "${missing[@]}"; do
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$package" >&2
  done
}

# overlay2 where this machine can mount one, else vfs, which copies all files several times for each step of a build.
storage_driver() {
  local probe driver=vfs
  probe="$(mktemp -d "$folder/probe.XXXXXX")"
  mkdir "$probe"/{lower,upper,work,merged}
  if mount -t overlay overlay -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" "$probe/merged" 2>/dev/null; then
    umount "$probe/merged"
    driver=overlay2
  fi
  rm -rf "$probe"
  printf '%s\n' "$driver"
}

# No bridge: packet filters cannot be counted on inside a container or a sandbox. Builds and runs therefore say --network=host.
start_engine() {
  local driver
  running && return 0
  mkdir -p "$folder/data" "$run_dir"
  driver="$(storage_driver)"
  say "starting dockerd on $driver"
  rm -f "$run_dir/docker.pid"
  setsid nohup dockerd --host "$DOCKER_HOST" --data-root "$folder/data" --exec-root "$run_dir/exec" --pidfile "$run_dir/docker.pid" \
    --storage-driver="$driver" --iptables=false --ip6tables=false --bridge=none >"$folder/dockerd.log" 2>&1 </dev/null &
  local _
  for _ in $(seq 60); do
    running && return 0
    sleep 0.5
  done
  say "dockerd did not start; its log ends:"
  tail -20 "$folder/dockerd.log" >&2
  return 1
}

# A Debian with nothing in it, with the machine's certificates: pip inside a build reaches a registry through whatever stands
# between, which the machine trusts and a fresh Debian does not.
make_base_image() {
  docker image inspect "$base_image" >/dev/null 2>&1 && return 0
  local tree="$folder/base-tree" certificates
  say "making $base_image with debootstrap"
  rm -rf "$tree"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$tree" >"$folder/debootstrap.log" 2>&1 || {
    tail -20 "$folder/debootstrap.log" >&2
    return 1
  }
  certificates="${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"
  [ -f "$certificates" ] && install -D -m 644 "$certificates" "$tree/etc/ssl/certs/ca-certificates.crt"
  rm -rf "$tree"/var/cache/apt/archives/*.deb
  tar -C "$tree" -c . | docker import --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' \
    --change 'CMD ["/bin/bash"]' - "$base_image" >&2
  rm -rf "$tree"
}

stop_engine() {
  if [ -f "$run_dir/docker.pid" ]; then
    kill "$(cat "$run_dir/docker.pid")" 2>/dev/null || true
    say "stopped"
  fi
}

main() {
  case "${1:-start}" in
    stop) stop_engine ;;
    start)
      mkdir -p "$folder"
      install_packages
      start_engine
      make_base_image
      printf 'DOCKER_HOST=%s PODWRIGHT_BASE_IMAGE=%s\n' "$DOCKER_HOST" "$base_image"
      ;;
    *) say "usage: real_docker.sh [start|stop]"; exit 2 ;;
  esac
}

main "$@"
