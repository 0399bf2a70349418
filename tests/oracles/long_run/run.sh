#!/usr/bin/env bash
# A run of a million tiny steps: memory, descriptors, threads, disk and step time must stay flat.
#
#   tests/run.sh --with long_run [--steps 1000000] [--seconds 5000] [--out runs/with-long_run]
#
# With --seconds it is stopped after that time and judged by the steps that it has made. Needs about
# 4 GB of disk for a million steps. Logs, samples and the table are in the folder of --out.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/oracles/faults
exec python3 "$here/long_run.py" --bin "$root/build/release/bin" "$@"
