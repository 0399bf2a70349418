#!/usr/bin/env bash
# checkpoint_ranks_test.sh PROGRAM: what some ranks wrote under one stage of sharding, other numbers
# of ranks read under other stages, bit for bit, with and without a folder that all of them see.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# pass RANKS FOLDER STEP ZERO DTYPE PRECISION [--hide | --experts]
pass() {
  local ranks=$1
  shift
  timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$ranks" "$program" "$@"
}

run=$folder/float32/checkpoint
pass 4 "$run" 1 2 float32 fp32_master
[ "$(ls "$run/step-1" | wc -l)" = 5 ]
pass 3 "$run" 2 3 float32 fp32_master
pass 1 "$run" 3 0 float32 fp32_master
run=$folder/bfloat16/checkpoint
pass 3 "$run" 1 0 bfloat16 fp32_master
pass 2 "$run" 2 1 bfloat16 fp32_master
# Experts that stay divided, and that do not.
run=$folder/experts/checkpoint
pass 2 "$run" 1 3 bfloat16 fp32_master --experts
pass 1 "$run" 2 0 bfloat16 fp32_master --experts
pass 4 "$run" 3 3 bfloat16 fp32_master --experts

# The last rank is on another machine: the others write and read for it.
for stage in 0 3; do
  run=$folder/hidden-$stage/checkpoint
  pass 3 "$run" 1 $stage float32 fp32_master --hide
  [ ! -e "$run-elsewhere/step-1" ] && [ ! -e "$run/step-1/rank-2.safetensors" ]
  pass 2 "$run" 2 $stage float32 fp32_master --hide
done
