#!/usr/bin/env bash
# Random kills, pauses, cuts, full disks and damage during a run: its weights must not change.
#
#   tests/run.sh --with faults [--faults 200] [--seed 1] [--zero 0,3]
#
# Needs the right to mount file systems and to make network namespaces. Logs and the table are in
# runs/with-faults/; a failure names the seed that repeats the order of the faults.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
export PYTHONDONTWRITEBYTECODE=1
exec unshare -m -n python3 "$here/faults.py" \
  --bin "$root/build/release/bin" "$@"
