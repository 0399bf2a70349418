#!/usr/bin/env bash
# Who names the cause of injected faults: rldoctor from metrics, or explain from completions.
#
#   tests/run.sh --with post_mortems
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
env=${peers%/*}/post_mortems
if ! cmp -s "$here/packages.txt" "$env/.complete"; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check -r "$here/packages.txt" >&2 || {
    echo "post_mortems: pip could not install packages.txt; check the network or pip's index" >&2
    exit 3
  }
  cp "$here/packages.txt" "$env/.complete"
fi
"$root/deploy/build.sh" release buttress
PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 exec "$peers/bin/python" \
  "$here/compare.py" --buttress "$root/build/release/bin/buttress" \
  --rldoctor "$env/bin/rl-doctor"
