#!/usr/bin/env bash
# Models of every family next to transformers: logits, gradients, greedy tokens, saved checkpoints.
#
#   tests/run.sh --with families [MODEL...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release family_oracle
# So small a limit divides what Buttress saves into several files.
export BUTTRESS_WEIGHT_FILE_BYTES=50000
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  "$root/build/release/bin/family_oracle" "$@"
