#!/usr/bin/env bash
# ranks_test.sh PROGRAM GOLDEN: two and three ranks train the same weights as one rank, whatever the
# loss, up to the rounding of their sums. The program itself checks that the ranks of a job have
# equal weights, bit for bit.
set -euo pipefail
program=$1 golden=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train RANKS OUT DTYPE PRECISION [SETTING=VALUE ...]
train() {
  local ranks=$1
  shift
  timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$ranks" "$program" "$@"
}

# Adam divides a gradient by its own size, which turns the last bits of the sums of a small one into
# any difference; with this eps it does not.
bound=1e-6 exact=run.optim.eps=1e-3

train 3 --differ
for ranks in 1 2 3; do train $ranks "$folder/$ranks" float32 fp32_master $exact; done
for precision in fp32_master stochastic; do train 2 "$folder/half" bfloat16 $precision; done
for ranks in 2 3; do "$program" --compare "$folder/1" "$folder/$ranks" $bound; done

# Losses with statistics over completions and over the whole step, rewards that need a pass of
# their own, and several updates a step.
a=run.algorithm b=run.batch
for settings in \
  "$a.loss=gspo $a.old_policy=learner $a.correction.mode=tis $a.correction.level=geometric \
    $a.aggregation=group_token_mean" \
  "$a.loss=kl_cov $a.kl_cov.share=0.1 $a.adaptive_entropy.target=10" \
  "$a.loss=clip_cov $a.clip_cov.share=0.2 $a.clip_cov.low=0.01" \
  "$a.loss=gmpo $a.kl_coef=0.05 $a.kl_in=reward" \
  "$b.updates=3 $b.mini_batch=completions $a.old_policy=learner run.optim.lr=1e-3" \
  "$b.updates=2 $b.epochs=3 $b.kl_stop=1e-4 $a.kl_coef=0.05 $a.old_policy=learner \
    run.optim.lr=1e-3"; do
  for ranks in 1 2; do train $ranks "$folder/loss$ranks" float32 fp32_master $exact $settings; done
  "$program" --compare "$folder/loss1" "$folder/loss2" $bound
done

# What the ranks divide changes no bit of the weights: with tied tables and without, experts,
# rounds in which a rank has no tokens, several updates, a reference model and passes that run
# twice.
# stages RANKS DTYPE PRECISION [SETTING=VALUE ...]
stages() {
  local ranks=$1 stage
  shift
  for stage in 0 1 2 3; do
    train "$ranks" "$folder/stage$stage" "$@" local.learner.zero=$stage > "$folder/log$stage"
    cmp "$folder/stage0" "$folder/stage$stage"
    cmp "$folder/log0" "$folder/log$stage"
  done
}
for ranks in 2 3 4; do stages $ranks float32 fp32_master; done
stages 3 bfloat16 fp32_master
stages 3 bfloat16 stochastic
for family in "$golden"/*/; do stages 2 float32 fp32_master run.model.path="$family"; done
stages 3 float32 fp32_master $a.kl_coef=0.05 $a.kl_in=reward local.learner.recompute=block
stages 2 float32 fp32_master $b.updates=2 $b.epochs=3 $b.kl_stop=1e-4 $a.kl_coef=0.05 \
  $a.old_policy=learner run.optim.lr=1e-3
stages 4 float32 fp32_master $b.updates=3 $b.mini_batch=completions $a.kl_coef=0.05

# Nor does it where a reference model stays on the disk.
for settings in "qwen2_tiny reward" "qwen2_untied loss" "qwen3_moe loss"; do
  read -r family place <<< "$settings"
  for reference in device disk; do
    train 2 "$folder/$reference" float32 fp32_master run.model.path="$golden/$family" \
      $a.kl_coef=0.05 $a.kl_in=$place local.learner.zero=3 local.learner.reference=$reference
  done
  cmp "$folder/device" "$folder/disk"
done

# Adapters, whose reference is the model itself; of a mixture those of its attention.
stages 3 float32 fp32_master run.lora.rank=2 $a.kl_coef=0.05
stages 2 bfloat16 fp32_master run.model.path="$golden/qwen3_moe" run.lora.rank=2 \
  "run.lora.targets=[q_proj, k_proj, v_proj, o_proj]" $a.kl_coef=0.05 $a.kl_in=reward

# Experts that stay divided give the same weights as gathered ones, up to the rounding of the sums.
divided="$exact run.model.path=experts local.learner.zero=3"
for settings in \
  "$a.kl_coef=0.05 $a.kl_in=reward" \
  "$b.updates=3 $b.mini_batch=completions local.learner.recompute=selective"; do
  train 1 "$folder/experts1" float32 fp32_master $divided $settings
  for ranks in 2 4; do
    train $ranks "$folder/experts$ranks" float32 fp32_master $divided $settings \
      local.learner.expert_parallel=true
    "$program" --compare "$folder/experts1" "$folder/experts$ranks" $bound
  done
done

# What a rank holds of weights, gradients, moments and masters is its part, and at most 15 % more.
# held RANKS STAGE PRECISION [SETTING=VALUE ...]
held() {
  train "$1" "$folder/held" bfloat16 "$3" run.model.path=larger local.learner.zero="$2" \
    "${@:4}" 2>&1 |
    sed -n 's/^rank 0 holds \([0-9]*\) bytes$/\1/p'
}
for settings in fp32_master stochastic "fp32_master run.lora.rank=4 $a.kl_coef=0.05"; do
  whole=$(held 1 0 $settings)
  for ranks in 2 4; do
    part=$(held $ranks 3 $settings)
    echo "$settings: $part of $whole bytes on $ranks ranks"
    ((100 * part <= whole * (100 / ranks + 15)))
  done
done
