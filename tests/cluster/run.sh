#!/usr/bin/env bash
# Runs the overlay k8s/overlays/dev with an evaluator (evaluated/) with podman, on one machine: a
# learner over two nodes by mpirun over ssh, Prometheus, and the loss of every pod in turn. About 15
# minutes.
#
#   tests/cluster/run.sh [--keep]        --keep leaves the pods and the folder for a look
#
# Needs root, build/release, `deploy/setup.sh --image` and kubectl 1.27 or newer. Its last line
# counts the checks; exit code 77 says why nothing could run here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
skip_all() { printf 'cluster: %s\n0 passed, 0 failed, 1 skipped\n' "$*"; exit 77; }

[ "$(id -u)" = 0 ] || skip_all "podman makes pods with networks of their own as root"
for program in podman runc ssh-keygen openssl prometheus; do
  command -v $program >/dev/null || skip_all "no $program; run deploy/setup.sh --image"
done
kubectl kustomize "$here/evaluated" >/dev/null 2>&1 ||
  skip_all "kubectl does not render tests/cluster/evaluated; version 1.27 or newer is needed"
export CONTAINERS_CONF=$here/containers.conf
podman network ls >/dev/null 2>&1 || skip_all "podman does not work here"
"$root/deploy/image.sh" --debootstrap --newest
podman run --rm --network none --read-only --cap-drop all buttress:0.1.0 true ||
  skip_all "this machine runs no containers"
exec /usr/bin/python3 -B "$here/run.py" "$@"
