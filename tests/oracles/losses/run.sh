#!/usr/bin/env bash
# Losses and gradients of random batches, next to the functions of verl and TRL.
#
#   tests/run.sh --with losses [BATCHES]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release loss_oracle
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  "$root/build/release/bin/loss_oracle" "$peers/verl" "$@"
