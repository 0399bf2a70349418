#!/usr/bin/env bash
# Advantages of `buttress advantages` against TRL's and verl's own formulas, on random batches. Needs build/release/bin/buttress and a Python with torch
# and trl; verl's wheel is fetched from PyPI without its dependencies.
#
#   tests/oracles/estimators/run.sh [--batches 10000] [--python /path/to/python]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
python=python3
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=$2; shift 2 ;;
    *) arguments+=("$1"); shift ;;
  esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --dest "$work" verl==0.9.1
python3 -m zipfile -e "$work"/verl-*.whl "$work/verl"
OMP_NUM_THREADS=1 "$python" "$root/tests/oracles/estimators/compare.py" --buttress "$root/build/release/bin/buttress" --verl "$work/verl" "${arguments[@]}"
