#!/usr/bin/env bash
# Sets up, builds and runs every test; ends with ctest's summary. Skipped tests are listed with their reason.
#
#   tests/run.sh [ctest arguments]        for example: tests/run.sh -L unit
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/deploy/setup.sh"
"$root/deploy/build.sh"
cd "$root/build/release"
exec ctest --output-on-failure --no-tests=error "$@"
