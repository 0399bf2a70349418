#!/usr/bin/env bash
# A rank dies, or makes no call: every other rank leaves with one clear line within the deadline, and nothing hangs.
#   gone_rank_test.sh PROGRAM MODE RANKS
# mpirun is told to leave the others alone (--enable-recovery), so that they find out by themselves; it then exits 0 whatever they do.
set -euo pipefail
program=$1 mode=$2 ranks=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rc=0
timeout --kill-after=5 100 mpirun --allow-run-as-root --oversubscribe --bind-to none --enable-recovery -np "$ranks" \
  "$program" --stuck-rank "$mode" >"$log" 2>&1 || rc=$?
if grep 'all tests skipped' "$log"; then exit 0; fi
# NCCL may hear of a dead rank before the deadline.
lines=$(grep -cE 'leaves: (DEADLINE_EXCEEDED: (MPI|NCCL) all-reduce: not done after 1500 ms; another rank is dead or stuck|UNAVAILABLE: NCCL all-reduce: )' "$log" || true)
if [ "$lines" != $((ranks - 1)) ] || [ $rc = 124 ] || [ $rc = 137 ]; then
  echo "mode $mode: exit $rc, $lines clear lines; expected $((ranks - 1)) lines and no timeout. Output:"
  cat "$log"
  exit 1
fi
