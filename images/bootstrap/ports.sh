# shellcheck shell=bash
# The ports must be free: official provider images start an nginx on some, and a leftover engine holds its own.
# The kernel's table is read directly, because small images have neither ss nor netstat.

phase_ports() {
  local port checked=""
  for port in "${PORTS[@]}"; do
    if [ "$port" = "$ENDPOINT_PORT" ]; then port=${VL_PROXY_PORT:-$port}; fi
    if [ "$port" = "$ENGINE_PORT" ]; then port=${VL_PORT:-$port}; fi
    port_is_free "$port"
    checked="$checked $port"
  done
  log "free ports:$checked"
}

port_is_free() {
  local hex table line address state inode
  printf -v hex '%04X' "$1"
  for table in /proc/net/tcp /proc/net/tcp6; do
    [ -r "$table" ] || continue
    while IFS= read -r line; do
      read -r _ address _ state _ _ _ _ _ inode _ <<<"$line"
      if [ "${address##*:}" = "$hex" ] && [ "$state" = 0A ]; then
        fatal "port $1 is taken by $(socket_owner "$inode")" "stop that program, or start a new pod with VL_PORT (engine) or VL_PROXY_PORT (endpoint) set to a free port"
      fi
    done <"$table"
  done
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
