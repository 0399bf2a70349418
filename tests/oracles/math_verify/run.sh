#!/usr/bin/env bash
# Verdicts of the math verifier, next to those of Math-Verify, by class of difference.
#
#   tests/run.sh --with math_verify [--rows 2000] [--show CLASS]
#
# $BUTTRESS_DATA names the folder of the data sets. Minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/math_verify
if ! cmp -s "$here/packages.txt" "$env/.complete"; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check -r "$here/packages.txt" >&2 || {
    echo "math_verify: pip could not install packages.txt; check the network or pip's index" >&2
    exit 3
  }
  cp "$here/packages.txt" "$env/.complete"
fi
"$root/deploy/build.sh" release bench_verifier
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" "$here/compare.py" "$@"
