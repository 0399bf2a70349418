#!/usr/bin/env bash
# Two and three ranks train what one rank trains, whatever the loss, up to the rounding of their sums; and the ranks of a job stay equal bit
# for bit (the program itself checks that).   ranks_test.sh PROGRAM
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
# Losses with statistics over completions, over the whole step, and rewards that need a pass of their own.
a=run.algorithm
for settings in "$a.loss=gspo $a.old_policy=learner $a.correction.mode=tis $a.correction.level=geometric $a.aggregation=group_token_mean" \
    "$a.loss=kl_cov $a.kl_cov.share=0.1 $a.adaptive_entropy.target=10" "$a.loss=clip_cov $a.clip_cov.share=0.2 $a.clip_cov.low=0.01" \
    "$a.loss=gmpo $a.kl_coef=0.05 $a.kl_in=reward"; do
  for ranks in 1 2; do
    timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np $ranks "$program" "$folder/loss$ranks" float32 $settings
  done
  "$program" --compare "$folder/loss1" "$folder/loss2" 2e-5
done
