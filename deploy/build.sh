#!/usr/bin/env bash
# Configures and builds a preset: deploy/build.sh [release|dev|asan|tsan]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-release}
cd "$root"
cmake --preset "$preset" -Wno-dev >/dev/null || { echo "build: cmake --preset $preset failed; run deploy/setup.sh first" >&2; exit 3; }
echo "build: preset $preset"
start=$SECONDS
cmake --build --preset "$preset"
echo "build: done in $((SECONDS - start)) s"
