# shellcheck shell=bash
# The ports must be free: official provider images start an nginx on some, and a leftover engine holds its own.
# The kernel's table is read directly, because small images have neither ss nor netstat.

phase_ports() {
  local port checked="" listening
  listening=$(listening_sockets)
  for port in "${PORTS[@]}"; do
    if [ "$port" = "$ENDPOINT_PORT" ]; then port=${VL_PROXY_PORT:-$port}; fi
    if [ "$port" = "$ENGINE_PORT" ]; then port=${VL_PORT:-$port}; fi
    port_is_free "$port" "$listening"
    checked="$checked $port"
  done
  log "free ports:$checked"
}

# `PORT_IN_HEX INODE` of each listening socket. Bash reads these files byte by byte, and the kernel builds the table anew for
# each read, so they are read whole by a program.
listening_sockets() {
  local table
  for table in /proc/net/tcp /proc/net/tcp6; do
    if [ -r "$table" ]; then cat "$table"; fi
  done | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F:]* 0A [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\1 \2/p'
}

port_is_free() {
  local hex port inode
  printf -v hex '%04X' "$1"
  while read -r port inode; do
    if [ "$port" = "$hex" ]; then
      fatal "port $1 is taken by $(socket_owner "$inode")" "stop that program, or give the profile another engine_port or bridge.port and build it again"
    fi
  done <<<"$2"
}

socket_owner() {
  local descriptor pid
  for descriptor in /proc/[0-9]*/fd/*; do
    if [ "$(readlink "$descriptor" 2>/dev/null)" = "socket:[$1]" ]; then
      pid=${descriptor#/proc/}
      pid=${pid%%/*}
      printf 'process %s (%s)' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
      return 0
    fi
  done
  printf 'a process outside this container or of another user'
}
