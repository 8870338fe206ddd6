# shellcheck shell=bash
# Sourced by the installers: uv follows the same index and certificate settings that pip has in this image.
export UV_LINK_MODE=copy UV_NO_CACHE=1 UV_HTTP_TIMEOUT=600 UV_SYSTEM_CERTS=1
if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE="$PIP_CERT"; fi
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="$PIP_INDEX_URL"; fi
if [ -n "${PIP_EXTRA_INDEX_URL:-}" ]; then export UV_INDEX="$PIP_EXTRA_INDEX_URL"; fi
if [ -n "${PIP_FIND_LINKS:-}" ]; then export UV_FIND_LINKS="$PIP_FIND_LINKS"; fi
