#!/usr/bin/env bash
# Adapters next to peft: log-probs, gradients, folders that each reads of the other, merged weights.
#
#   tests/run.sh --with adapters
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release family_oracle rollout_worker
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 PYTHONPATH=$here/../families "$peers/bin/python" \
  "$here/compare.py" "$root/build/release/bin"
