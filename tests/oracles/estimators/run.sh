#!/usr/bin/env bash
# Advantages of random batches, next to the formulas of TRL and verl.
#
#   tests/run.sh --with estimators [--batches 10000]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release buttress
OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  --buttress "$root/build/release/bin/buttress" --verl "$peers/verl" "$@"
