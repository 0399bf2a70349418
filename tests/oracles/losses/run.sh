#!/usr/bin/env bash
# Our losses against verl's and TRL's own code:   tests/oracles/losses/run.sh [BATCHES]
# Needs a machine that deploy/setup.sh has set up, and a Python with torch and trl (ORACLE_PYTHON); verl comes from PyPI.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
python=${ORACLE_PYTHON:-/root/peers/bin/python}
verl=0.9.1
"$root/deploy/build.sh" release loss_oracle
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$folder" "verl==$verl"
"$python" -m zipfile -e "$folder/verl-$verl-py3-none-any.whl" "$folder/verl"
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$python" "$here/compare.py" "$root/build/release/bin/loss_oracle" "$folder/verl" "$@"
