#!/usr/bin/env bash
# Sets up, builds and runs every test; ends with ctest's summary. Skipped tests are listed with their reason.
#
#   tests/run.sh [ctest arguments]        for example: tests/run.sh -L unit
#   tests/run.sh --with-vllm [PART]       instead: trains through a real vLLM (installed at the first call: 3 minutes, 6.3 GB);
#                                         PART: float32 or bfloat16 (a minute), else both
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/deploy/setup.sh"
if [ "${1:-}" = --with-vllm ]; then
  "$root/deploy/build.sh" release buttress coordinator rollout_worker learner vllm_oracle_test
  exec "$root/tests/oracles/with_vllm.sh" "${@:2}"
fi
"$root/deploy/build.sh"
cd "$root/build/release"
exec ctest --output-on-failure --no-tests=error "$@"
