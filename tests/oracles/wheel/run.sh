#!/usr/bin/env bash
# The wheel, built and used: TRL trains with its verdicts and advantages, AVSPO's among them.
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
PYTHONPATH=$work/packages PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 \
  "$peers/bin/python" "$here/train.py"
