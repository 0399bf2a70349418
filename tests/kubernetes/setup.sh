#!/usr/bin/env bash
# Installs kubernetes-validate, which holds the schemas of Kubernetes' own kinds, from PyPI into a
# virtual environment (150 MB), unless it is there, and prints its folder.
#
#   tests/kubernetes/setup.sh
#
# The environment is in $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles), which may be deleted.
set -euo pipefail
wanted=kubernetes-validate==1.37.0
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/kubernetes
if [ ! -f "$env/.complete" ] || [ "$(cat "$env/.complete")" != "$wanted" ]; then
  rm -rf "$env"
  mkdir -p "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check "$wanted" >&2 || {
    echo "kubernetes: pip could not install $wanted; check the network or pip's settings" >&2
    exit 3
  }
  echo "$wanted" >"$env/.complete"
fi
echo "$env"
