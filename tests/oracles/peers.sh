#!/usr/bin/env bash
# Installs TRL (peers.txt) and verl from PyPI into a virtual environment, unless they are there, and
# prints its folder: bin/python imports TRL, and verl/ holds verl's package without dependencies.
# The first call takes a few minutes and 6 GB.
#
#   tests/oracles/peers.sh
#
# The environment is in $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles), which may be deleted.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
verl=0.9.1
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/peers
wanted=$(cat "$here/peers.txt")$'\n'verl==$verl

fail() { printf 'oracles: %s\n' "$*" >&2; exit 3; }

if [ -f "$env/.complete" ] && [ "$(cat "$env/.complete")" = "$wanted" ]; then
  echo "$env"
  exit 0
fi
rm -rf "$env"
mkdir -p "$env"
free=$(df -k --output=avail "$env" | tail -n 1)
[ "$free" -ge 12000000 ] || fail "$env has $((free / 1024)) MiB free, 12,000 are needed;" \
  "free some, or set BUTTRESS_ORACLES to a folder on another disk"
printf 'oracles: installing %s into %s (a few minutes)\n' "$(echo $wanted)" "$env" >&2
python3 -m venv "$env"
"$env/bin/pip" install -q --disable-pip-version-check -r "$here/peers.txt" >&2 ||
  fail "pip could not install peers.txt; check the network or pip's index settings"
"$env/bin/pip" install -q --disable-pip-version-check --no-deps --target "$env/verl" \
  "verl==$verl" >&2 ||
  fail "pip could not install verl $verl; check the network or pip's index settings"
echo "$wanted" >"$env/.complete"
echo "$env"
