#!/usr/bin/env bash
# Installs the packages of a list into a virtual environment of that name, unless they are there,
# and prints its folder.
#
#   tests/oracles/venv.sh NAME LIST
#
# The environment is in $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles), which may be deleted.
set -euo pipefail
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/$1
if ! cmp -s "$2" "$env/.complete"; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check -r "$2" >&2 || {
    echo "$1: pip could not install $2; check the network or pip's index" >&2
    exit 3
  }
  cp "$2" "$env/.complete"
fi
echo "$env"
