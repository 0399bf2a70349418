#!/usr/bin/env bash
# A rank dies, or makes no call: every other rank leaves with one clear line within the deadline, and nothing hangs.
#   gone_rank_test.sh PROGRAM MODE
# mpirun is told to leave the others alone (--enable-recovery), so that they find out by themselves; it then exits 0 whatever they do.
set -euo pipefail
program=$1 mode=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rc=0
timeout --kill-after=5 40 mpirun --allow-run-as-root --oversubscribe --bind-to none --enable-recovery -np 3 \
  "$program" --stuck-rank "$mode" >"$log" 2>&1 || rc=$?
lines=$(grep -c 'leaves: DEADLINE_EXCEEDED: MPI all-reduce: not done after 1500 ms; another rank is dead or stuck' "$log" || true)
if [ "$lines" != 2 ] || [ $rc = 124 ] || [ $rc = 137 ]; then
  echo "mode $mode: exit $rc, $lines clear lines; expected 2 lines and no timeout. Output:"
  cat "$log"
  exit 1
fi
