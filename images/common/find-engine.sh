#!/usr/bin/env bash
# find-engine.sh DISTRIBUTION [PYTHON]: which interpreter has the engine, by package metadata, written once as the program
# engine-python beside this folder. Official images put the engine into a virtual environment or into the system's Python,
# depending on the release; nothing after this step may assume either. With PYTHON, that one has it or the step fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

distribution=$1
target="$(dirname "$here")/engine-python"

# The interpreter of the program `vllm` first: it is what `vllm serve` would run under.
candidates() {
  local program first second=""
  if program=$(command -v vllm); then
    IFS=' ' read -r first second _ < <(head -n 1 "$program" | tr -d '\0') || true
    first=${first#'#!'}
    if [ "${first##*/}" = env ]; then command -v "$second" || true; else printf '%s\n' "$first"; fi
    printf '%s\n' "$(dirname "$(readlink -f "$program")")/python"
  fi
  command -v python3 || true
  printf '%s\n' /opt/venv/bin/python
}

# report PYTHON: interpreter, folder of its programs, version of the engine; fails where the engine is not.
report() {
  "$1" -I -c '
import sys, sysconfig
from importlib.metadata import version
print(sys.executable, sysconfig.get_path("scripts"), version(sys.argv[1]), sep="\n")' "$distribution" 2>/dev/null
}

tried=()
while IFS= read -r python; do
  [[ ${python##*/} == python* ]] && [ -x "$python" ] || continue
  tried+=("$python")
  found=$(report "$python") || continue
  { read -r python && read -r programs && read -r version; } <<<"$found"
  {
    printf '#!/usr/bin/env bash\n# Written by find-engine.sh: the interpreter that has %s.\n' "$distribution"
    printf 'export PATH=%q:"%s"\nexec %q "%s"\n' "$programs" "\$PATH" "$python" "\$@"
  } >"$target"
  chmod 755 "$target"
  echo "$distribution $version is in $python"
  exit 0
done < <(if [ -n "${2:-}" ]; then printf '%s\n' "$2"; else candidates; fi)
echo "no Python has $distribution; tried: ${tried[*]:-none, there is no interpreter}" >&2
exit 1
