#!/usr/bin/env bash
# Arguments and results of reward functions, next to the code of TRL and verl that calls them.
#
#   tests/run.sh --with rewards
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
"$root/deploy/build.sh" release rewards_oracle
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$peers/bin/python" "$here/compare.py" \
  "$root/build/release/bin/rewards_oracle" "$peers/verl"
