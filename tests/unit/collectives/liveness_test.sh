#!/usr/bin/env bash
# liveness_test.sh PROGRAM: of three ranks that exchange heartbeats, the last is killed, frozen,
# busy beyond the timeout of the collective, or stuck. The others know which it is, in time.
# --enable-recovery keeps mpirun from killing the other ranks.
set -euo pipefail
program=$1
log=$(mktemp)
trap 'pkill -KILL -f "^$program --watched" || true; rm -f "$log"' EXIT

# expect MODE LINES PATTERN: that many lines of the log match.
expect() {
  timeout --kill-after=5 150 mpirun --allow-run-as-root --oversubscribe --bind-to none \
    --enable-recovery -np 3 "$program" --watched "$1" >"$log" 2>&1 &
  local mpirun=$! end=$((SECONDS + 120))
  until [ "$(grep -cE "$3" "$log")" = "$2" ]; do
    if [ $SECONDS -ge $end ]; then
      echo "mode $1: expected $2 lines '$3', but the output is:"
      cat "$log"
      exit 1
    fi
    sleep 0.1
  done
  # A frozen rank never ends.
  if [ "$1" = frozen ]; then pkill -KILL -f "^$program --watched" || true; fi
  wait $mpirun || true
}

all_reduce='UNAVAILABLE: MPI all-reduce: rank 2 is gone'
# What it says tells how a rank has found out. A busy machine only makes it later.
expect dead 2 "leaves after [0-9.]+ s: $all_reduce: its connection was closed"
expect frozen 2 "leaves after [0-9.]+ s: $all_reduce: silent for"
expect busy 3 'leaves after [0-9.]+ s: OK'
from_5_s='([5-9]|[1-9][0-9]+)\.[0-9] s'
expect stuck 2 "^rank [01] leaves after $from_5_s: .*(one of them is stuck|is gone)"
