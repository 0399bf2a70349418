#!/usr/bin/env bash
# Verdicts of the math verifier, next to those of Math-Verify, by class of difference.
#
#   tests/run.sh --with math_verify [--rows 2000] [--show CLASS]
#
# $BUTTRESS_DATA names the folder of the data sets. Minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=$("$here/../venv.sh" math_verify "$here/packages.txt")
"$root/deploy/build.sh" release bench_verifier
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" "$here/compare.py" "$@"
