#!/usr/bin/env bash
# Fuzzes every parser of external input under AddressSanitizer and UndefinedBehaviorSanitizer with a
# new seed, which is printed:
#
#   tests/fuzz/run.sh [--minutes M] [--seed N] [--target NAME]      default: 10 minutes in total
#
# The input of a crash or stall is saved in the current folder as fuzz-crash-TARGET. To repeat it:
# build/asan/bin/fuzz_parsers --target TARGET --replay FILE
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
minutes=10
arguments=(--seed "$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')")
while (($#)); do
  case $1 in
    --minutes) minutes=$2 ;;
    --seed | --target) arguments+=("$1" "$2") ;;
    *) echo "tests/fuzz/run.sh [--minutes M] [--seed N] [--target NAME]" >&2 && exit 2 ;;
  esac
  shift 2
done
cmake --preset asan -S "$root" >/dev/null
cmake --build "$root/build/asan" --target fuzz_parsers
exec "$root/build/asan/bin/fuzz_parsers" --seconds $((minutes * 60)) --limit-ms 5000 \
  "${arguments[@]}"
