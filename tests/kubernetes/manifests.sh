#!/bin/sh
# Runs manifests_test.py in the environment of setup.sh. Without it, or without kubectl 1.27 or
# newer, it says so and ends with 77.
set -u
here=$(dirname "$0")
skip() { echo "skipped: $*"; exit 77; }
command -v kubectl >/dev/null || skip "kubectl is not installed"
minor=$(kubectl version --client -o json | sed -n 's/.*"minor": "\([0-9]*\).*/\1/p' | head -n 1)
[ "${minor:-0}" -ge 27 ] || skip "kubectl 1.$minor is older than 1.27"
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/kubernetes
[ -f "$env/.complete" ] || skip "kubernetes-validate is missing; run tests/kubernetes/setup.sh"
exec "$env/bin/python" -B "$here/manifests_test.py" "$@"
