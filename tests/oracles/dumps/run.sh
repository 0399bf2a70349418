#!/usr/bin/env bash
# What `buttress explain` says of dumps of TRL and verl, against their rows and logs.
#
#   tests/run.sh --with dumps
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
packages=${peers%/*}/dumps
if ! cmp -s "$here/packages.txt" "$packages/.complete"; then
  rm -rf "$packages"
  "$peers/bin/pip" install -q --disable-pip-version-check --no-deps --target "$packages" \
    -r "$here/packages.txt" >&2 || {
    echo "dumps: pip could not install packages.txt; check the network or pip's index" >&2
    exit 3
  }
  cp "$here/packages.txt" "$packages/.complete"
fi
"$root/deploy/build.sh" release buttress
PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 \
  exec "$peers/bin/python" "$here/compare.py" --buttress "$root/build/release/bin/buttress" \
  --verl "$peers/verl"
