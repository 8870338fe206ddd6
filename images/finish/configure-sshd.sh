#!/usr/bin/env bash
# Key login only, and no host keys in the image: everybody who has the image would have them.
set -euo pipefail

mkdir -p /etc/ssh/sshd_config.d /run/sshd
cat >/etc/ssh/sshd_config.d/10-podwright.conf <<'CONF'
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
X11Forwarding no
CONF
rm -f /etc/ssh/ssh_host_*
