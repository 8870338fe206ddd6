# shellcheck shell=bash
# VL_* variables: emergency levers of the pod's environment, from one table. A typo must not pass as a lever.

phase_overrides() {
  local row name rest effect pattern value
  local -A known=()
  for row in "${OVERRIDES[@]}"; do
    name=${row%%|*}
    rest=${row#*|}
    effect=${rest%%|*}
    pattern=${rest#*|}
    known["$name"]=1
    value=${!name:-}
    [ -n "$value" ] || continue
    if [[ ! $value =~ ^($pattern)$ ]]; then
      fatal "$name does not have a value that it may have ($effect)" "set $name to something that matches $pattern, or remove it, and start a new pod"
    fi
    log "$name=$value is set: $effect"
  done
  while IFS= read -r name; do
    [ -n "${known[$name]:-}" ] || warn "$name is set and means nothing to this profile; known are: ${!known[*]}"
  done < <(compgen -e VL_ || true)
}
