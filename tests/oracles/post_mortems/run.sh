#!/usr/bin/env bash
# Who names the cause of injected faults: rldoctor from metrics, or explain from completions.
#
#   tests/run.sh --with post_mortems
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
env=$("$here/../venv.sh" post_mortems "$here/packages.txt")
"$root/deploy/build.sh" release buttress
PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 exec "$peers/bin/python" \
  "$here/compare.py" --buttress "$root/build/release/bin/buttress" \
  --rldoctor "$env/bin/rl-doctor"
