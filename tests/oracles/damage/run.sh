#!/usr/bin/env bash
# One run through a flipped payload, a flipped checkpoint, old ledgers, a full disk and a stop.
#
#   tests/run.sh --with damage [--steps 200]
#
# Needs the right to mount a file system. Logs and figures are in runs/with-damage/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/oracles
exec unshare -m python3 "$here/damage.py" \
  --bin "$root/build/release/bin" "$@"
