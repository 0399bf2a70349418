#!/usr/bin/env bash
# Installs the trainers that ours is compared with, TRL (peers.txt) and verl, into a virtual environment of its own; nothing that ships
# imports it. A few minutes and 6 GB, from PyPI alone; does nothing if it is there. Prints the environment's folder: bin/python has TRL,
# verl/ holds verl's package without what it depends on.
#
#   tests/oracles/peers.sh
#
# It goes to $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles); delete that folder to be rid of it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
verl=0.9.1
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/peers
wanted=$(cat "$here/peers.txt")$'\n'verl==$verl

fail() { printf 'oracles: %s\n' "$*" >&2; exit 3; }

if [ -f "$env/.complete" ] && [ "$(cat "$env/.complete")" = "$wanted" ]; then echo "$env"; exit 0; fi
rm -rf "$env"
mkdir -p "$env"
free=$(df -k --output=avail "$env" | tail -n 1)
[ "$free" -ge 12000000 ] || fail "$env has $((free / 1024)) MiB free, 12,000 are needed; free some, or set BUTTRESS_ORACLES to another disk"
printf 'oracles: installing %s into %s (a few minutes)\n' "$(echo $wanted)" "$env" >&2
python3 -m venv "$env"
"$env/bin/pip" install -q --disable-pip-version-check -r "$here/peers.txt" >&2 ||
  fail "pip could not install peers.txt; check the network or pip's index settings"
"$env/bin/pip" install -q --disable-pip-version-check --no-deps --target "$env/verl" "verl==$verl" >&2 ||
  fail "pip could not install verl $verl; check the network or pip's index settings"
echo "$wanted" >"$env/.complete"
echo "$env"
