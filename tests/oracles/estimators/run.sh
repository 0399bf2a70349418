#!/usr/bin/env bash
# Advantages of `buttress advantages` against TRL's and verl's own formulas, on random batches:
#
#   tests/oracles/estimators/run.sh [--batches 10000]
#
# Needs a machine that deploy/setup.sh has set up; the first call installs the peers
# (tests/oracles/peers.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release buttress
OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  --buttress "$root/build/release/bin/buttress" --verl "$peers/verl" "$@"
