#!/usr/bin/env bash
# Points Claude Code at kimi-linear-a40: claude-kimi[1m], 1,048,576 tokens. For bash and zsh.
#   . ./connect.sh POD_ID           sets the variables in this shell
#   . ./connect.sh --undo                puts back what was there before
#   ./connect.sh POD_ID --launch [-- ARGUMENTS]   starts claude with them and leaves the shell alone
# The endpoint's key comes from PODWRIGHT_API_KEY, or is asked for. It is written nowhere.

_podwright_save() {
  local name
  for name in ANTHROPIC_API_KEY ANTHROPIC_BASE_URL ANTHROPIC_AUTH_TOKEN ANTHROPIC_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_SMALL_FAST_MODEL CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT CLAUDE_CODE_AUTO_COMPACT_WINDOW; do
    if eval "[ -n \"\${_podwright_before_$name-}\" ]"; then continue; fi
    if eval "[ -n \"\${$name+set}\" ]"; then eval "_podwright_before_$name=v:\$$name"; else eval "_podwright_before_$name=unset"; fi
  done
}

_podwright_undo() {
  local name before
  for name in ANTHROPIC_API_KEY ANTHROPIC_BASE_URL ANTHROPIC_AUTH_TOKEN ANTHROPIC_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_SMALL_FAST_MODEL CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT CLAUDE_CODE_AUTO_COMPACT_WINDOW; do
    eval "before=\${_podwright_before_$name-}"
    unset "_podwright_before_$name"
    case $before in
      v:*) export "$name=${before#v:}" ;;
      unset) unset "$name" ;;
    esac
  done
}

_podwright_connect() {
  local address='' launch='' key='none'
  while [ $# -gt 0 ]; do
    case $1 in
      --undo) _podwright_undo; return 0 ;;
      --launch) launch=yes ;;
      --) shift; break ;;
      -*) echo "connect.sh: unknown option $1; see the head of this file" >&2; return 2 ;;
      *) address=$1 ;;
    esac
    shift
  done
  case $address in
    http://?* | https://?*) address=${address%/} ;;
    '' | *[!A-Za-z0-9]*) echo 'connect.sh: give the pod id, or the address of the endpoint' >&2; return 2 ;;
    *) address=https://$address-8080.proxy.runpod.net ;;
  esac
  key="${PODWRIGHT_API_KEY-}"
  if [ -z "$key" ] && [ -t 0 ]; then
    printf 'Key of the endpoint: ' >&2
    read -rs key
    echo >&2
  fi
  if [ -z "$key" ]; then echo 'connect.sh: no key; set PODWRIGHT_API_KEY' >&2; return 1; fi
  _podwright_save
  unset ANTHROPIC_API_KEY
  export ANTHROPIC_BASE_URL="$address"
  export ANTHROPIC_AUTH_TOKEN="$key"
  # main model
  export ANTHROPIC_MODEL='claude-kimi[1m]'
  # every tier has the one served model
  export ANTHROPIC_DEFAULT_OPUS_MODEL='claude-kimi[1m]'
  # every tier has the one served model
  export ANTHROPIC_DEFAULT_SONNET_MODEL='claude-kimi[1m]'
  # background work
  export ANTHROPIC_DEFAULT_HAIKU_MODEL='claude-kimi[1m]'
  # older clients ask for the small model by this name
  export ANTHROPIC_SMALL_FAST_MODEL='claude-kimi[1m]'
  # without it the client assumes 200,000 tokens
  export CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT=1
  # compaction starts a little below; without it, and with the enforcement lifted, never
  export CLAUDE_CODE_AUTO_COMPACT_WINDOW=1000000
  echo "Claude Code in this shell: claude-kimi[1m] at $address" >&2
  if [ -n "$launch" ]; then claude "$@"; fi
}

if [ -n "${ZSH_VERSION-}" ] || (return 0 2>/dev/null); then
  _podwright_connect "$@"
else
  case " $* " in
    *' --launch '*) _podwright_connect "$@" ;;
    *) echo "connect.sh: a script cannot change its caller's variables; run '. $0 ...', or add --launch" >&2; exit 2 ;;
  esac
fi
