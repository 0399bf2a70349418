#!/usr/bin/env bash
# Two and three ranks train what one rank trains, up to the rounding of their sums; and the ranks of a job stay equal bit for bit (the
# program itself checks that).   ranks_test.sh PROGRAM
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for ranks in 1 2 3; do
  timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np $ranks "$program" "$folder/$ranks" float32
done
timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$program" "$folder/half" bfloat16
# Four steps at a learning rate of 1e-2: the weights move by 4e-2, Adam turns the sums' last bits into this.
for ranks in 2 3; do "$program" --compare "$folder/1" "$folder/$ranks" 2e-5; done
