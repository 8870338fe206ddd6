#!/usr/bin/env bash
# install-torch-cpu.sh VENV VERSION: the CPU build of torch. An image with its own index or wheels decides itself which build
# it offers; otherwise uv takes it from the publisher's index of CPU builds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=images/common/python-index.sh
source "$here/python-index.sh"

backend=()
if [ -z "${UV_DEFAULT_INDEX:-}${UV_FIND_LINKS:-}" ]; then backend=(--torch-backend cpu); fi
/opt/uv/bin/uv pip install --quiet "${backend[@]}" --python "$1/bin/python" "torch==$2"
"$1/bin/python" -c 'import torch; assert torch.version.cuda is None, "this torch is a CUDA build"; print("torch", torch.__version__)'
