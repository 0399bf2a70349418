#!/usr/bin/env bash
# Configures and builds a preset, or some of its targets:
#
#   deploy/build.sh [release|wheel|dev|asan|tsan [TARGET ...]]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-release}
shift || true
cd "$root"
if ! cmake --preset "$preset" -Wno-dev >/dev/null; then
  echo "build: cmake --preset $preset failed; run deploy/setup.sh first" >&2
  exit 3
fi
echo "build: preset $preset ${*:-, everything}"
start=$SECONDS
cmake --build --preset "$preset" ${1:+--target "$@"}
echo "build: done in $((SECONDS - start)) s"
