#!/usr/bin/env bash
# Installs the CPU build of vLLM by deploy/setup.sh, unless it is there, and prints its folder. The
# first call takes about 3 minutes and 6.3 GB.
#
#   tests/oracles/vllm/setup.sh [VERSION]    0.26.0
#
# The environment is in $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles), which may be deleted.
set -euo pipefail
version=${1:-0.26.0}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/vllm-$version
CUDA_VISIBLE_DEVICES= "$root/deploy/setup.sh" --vllm "$env" "$version" >&2
echo "$env"
