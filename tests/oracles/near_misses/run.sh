#!/usr/bin/env bash
# 400,000 near misses of the answers of MATH, in the folder $BUTTRESS_DATA; minutes.
#
#   tests/run.sh --with near_misses
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
"$root/deploy/build.sh" release verify_data_test
BUTTRESS_NEAR_MISSES=60 "$root/build/release/bin/verify_data_test" \
  --gtest_filter='NearMiss.NearMissesOfEveryMathAnswerAreWrong'
