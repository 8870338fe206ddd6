#!/usr/bin/env bash
# desktop.sh PORT PASSWORD_ENV: XFCE on a virtual screen. x11vnc listens on loopback; only websockify is reached from outside.
set -euo pipefail

port=$1
password=${!2:?the password variable is empty}
folder=$(mktemp -d)
(umask 077 && printf '%s\n' "$password" >"$folder/password")
unset "$2"
export DISPLAY=:1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 143' TERM INT
Xvfb "$DISPLAY" -screen 0 1600x900x24 -nolisten tcp &
until [ -S /tmp/.X11-unix/X1 ]; do sleep 0.2; done
startxfce4 >/dev/null 2>&1 &
x11vnc -display "$DISPLAY" -localhost -rfbport 5900 -passwdfile "$folder/password" -forever -shared -quiet &
websockify --web /usr/share/novnc "0.0.0.0:$port" 127.0.0.1:5900 &
wait -n
