#!/usr/bin/env bash
# The losses against verl's and TRL's own code:   tests/oracles/losses/run.sh [BATCHES]
# Needs a machine that deploy/setup.sh has set up; the first call installs the peers
# (tests/oracles/peers.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release loss_oracle
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  "$root/build/release/bin/loss_oracle" "$peers/verl" "$@"
