#!/usr/bin/env bash
# The wheel, built and used: TRL, and functions of verl, train with its verdicts and advantages.
#
#   tests/run.sh --with wheel
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
peers=$("$here/../peers.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/deploy/wheel.sh" "$work"
"$peers/bin/pip" install -q --disable-pip-version-check --no-deps --target "$work/packages" \
  "$work"/buttress-*.whl
export PATH=$work/packages/bin:$PATH PYTHONPATH=$work/packages
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
"$peers/bin/python" "$here/train.py"
"$peers/bin/python" "$here/verl_steps.py" "$peers/verl"
