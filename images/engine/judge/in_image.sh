#!/usr/bin/env bash
# Ask the engine of an image: find its interpreter, give it a driver library that knows no device, answer the jobs on stdout.
# Runs in a container of that image that has no network and whose only writable folder is /tmp.
#
#   in_image.sh RELEASE SECONDS     beside it: judge.py, make_environment.sh, find-engine.sh, jobs.json
#
# Exit status 3: no such release in the image; 4: no compiler in it for the driver library; each says on stderr's last line why.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
release=$1 seconds=$2

# find-engine.sh writes what it found beside its own folder.
mkdir -p /tmp/engine/common
cp "$here/find-engine.sh" /tmp/engine/common/
found=$(bash /tmp/engine/common/find-engine.sh vllm) || exit 3
version=${found#vllm }
version=${version%% *}
if [ "${version%%+*}" != "$release" ]; then
  echo "it has vllm $version" >&2
  exit 3
fi

package=$(bash /tmp/engine/engine-python -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("vllm").origin))')
bash "$here/make_environment.sh" --driver "$package" /tmp/no-device
export LD_LIBRARY_PATH="/tmp/no-device${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONPATH="$here"
# Whoever started this ends it in time; this limit is for the case that they were killed.
exec timeout --kill-after 10 "$seconds" bash /tmp/engine/engine-python "$here/judge.py" <"$here/jobs.json"
