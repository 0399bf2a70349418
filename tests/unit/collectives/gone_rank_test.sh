#!/usr/bin/env bash
# Tests that when one rank dies or makes no call, every other rank exits with one clear line within
# the deadline.
#   gone_rank_test.sh PROGRAM MODE RANKS
# --enable-recovery keeps mpirun from killing the other ranks. mpirun then exits with 0.
set -euo pipefail
program=$1 mode=$2 ranks=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rc=0
timeout --kill-after=5 100 mpirun --allow-run-as-root --oversubscribe --bind-to none \
  --enable-recovery -np "$ranks" "$program" --stuck-rank "$mode" >"$log" 2>&1 || rc=$?
if grep 'all tests skipped' "$log"; then exit 0; fi
late='not done after 1500 ms; another rank is dead or stuck'
# NCCL may detect a dead rank before the deadline.
early='UNAVAILABLE: NCCL all-reduce: '
lines=$(grep -cE "leaves: (DEADLINE_EXCEEDED: (MPI|NCCL) all-reduce: $late|$early)" "$log" || true)
if [ "$lines" != $((ranks - 1)) ] || [ $rc = 124 ] || [ $rc = 137 ]; then
  echo "mode $mode: exit $rc, $lines clear lines; expected $((ranks - 1)) and no timeout. Output:"
  cat "$log"
  exit 1
fi
