#!/usr/bin/env bash
# ranks_test.sh PROGRAM GOLDEN: two and three ranks train the same weights as one rank, whatever the
# loss, up to the rounding of their sums. The program itself checks that the ranks of a job have
# equal weights, bit for bit.
set -euo pipefail
program=$1 golden=$2
. "$(dirname "$0")/trained.sh"

ranks 3 --differ

# Adam divides a gradient by its own size, which turns the last bits of the sums of a small one into
# any difference; with this eps it does not.
bound=1e-6 exact=run.optim.eps=1e-3

for ranks in 1 2 3; do train $ranks $ranks float32 fp32_master $exact; done
for ranks in 2 3; do near 1 $ranks $bound; done
for precision in fp32_master stochastic; do train 2 half-$precision bfloat16 $precision; done

# Losses with statistics over completions and over the whole step, rewards that need a pass of
# their own, and several updates a step.
a=run.algorithm b=run.batch
losses=0
for settings in \
  "$a.loss=gspo $a.old_policy=learner $a.correction.mode=tis $a.correction.level=geometric \
    $a.aggregation=group_token_mean" \
  "$a.loss=kl_cov $a.kl_cov.share=0.1 $a.adaptive_entropy.target=10" \
  "$a.loss=clip_cov $a.clip_cov.share=0.2 $a.clip_cov.low=0.01" \
  "$a.loss=gmpo $a.kl_coef=0.05 $a.kl_in=reward" \
  "$b.updates=3 $b.mini_batch=completions $a.old_policy=learner run.optim.lr=1e-3" \
  "$b.updates=2 $b.epochs=3 $b.kl_stop=1e-4 $a.kl_coef=0.05 $a.old_policy=learner \
    run.optim.lr=1e-3"; do
  loss=loss$((++losses))
  for ranks in 1 2; do train $ranks $loss-$ranks float32 fp32_master $exact $settings; done
  near $loss-1 $loss-2 $bound
done

# What the ranks divide changes no bit of the weights: with tied tables and without, experts,
# rounds in which a rank has no tokens, several updates, a reference model and passes that run
# twice.
# stages RANKS DTYPE PRECISION [SETTING=VALUE ...]
staged=0
stages() {
  local stage
  ((++staged))
  for stage in 0 1 2 3; do
    train "$1" staged$staged-$stage "${@:2}" local.learner.zero=$stage
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
# Adapters, whose reference is the model itself; of a mixture those of its attention.
stages 3 float32 fp32_master run.lora.rank=2 $a.kl_coef=0.05
stages 2 bfloat16 fp32_master run.model.path="$golden/qwen3_moe" run.lora.rank=2 \
  "run.lora.targets=[q_proj,k_proj,v_proj,o_proj]" $a.kl_coef=0.05 $a.kl_in=reward

# Nor does it where a reference model stays on the disk.
references=("qwen2_tiny reward" "qwen2_untied loss" "qwen3_moe loss")
for settings in "${references[@]}"; do
  read -r family place <<< "$settings"
  for reference in device disk; do
    train 2 $family-$reference float32 fp32_master run.model.path="$golden/$family" \
      $a.kl_coef=0.05 $a.kl_in=$place local.learner.zero=3 local.learner.reference=$reference
  done
done

# Experts that stay divided give the same weights as gathered ones, up to the rounding of the sums.
divided="$exact run.model.path=experts local.learner.zero=3"
experts=0
for settings in \
  "$a.kl_coef=0.05 $a.kl_in=reward" \
  "$b.updates=3 $b.mini_batch=completions local.learner.recompute=selective"; do
  name=experts$((++experts))
  train 1 $name-1 float32 fp32_master $divided $settings
  for ranks in 2 4; do
    train $ranks $name-$ranks float32 fp32_master $divided $settings \
      local.learner.expert_parallel=true
    near $name-1 $name-$ranks $bound
  done
done

# What a rank holds of weights, gradients, moments and masters is its part, and at most 15 % more.
# hold RANKS STAGE OUT PRECISION [SETTING=VALUE ...]
hold() { train "$1" "$3" bfloat16 "${@:4}" run.model.path=larger local.learner.zero="$2"; }
held=(fp32_master stochastic "fp32_master run.lora.rank=4 $a.kl_coef=0.05")
for i in "${!held[@]}"; do
  hold 1 0 held$i-1 ${held[i]}
  for ranks in 2 4; do hold $ranks 3 held$i-$ranks ${held[i]}; done
done

train_all
compare_all
for ((i = 1; i <= staged; ++i)); do
  for stage in 1 2 3; do
    equal staged$i-0 staged$i-$stage
    equal staged$i-0.log staged$i-$stage.log
  done
done
for settings in "${references[@]}"; do equal ${settings% *}-device ${settings% *}-disk; done
for i in "${!held[@]}"; do
  whole=$(<"$folder/held$i-1.held")
  for ranks in 2 4; do
    part=$(<"$folder/held$i-$ranks.held")
    echo "${held[i]}: $part of $whole bytes on $ranks ranks"
    ((100 * part <= whole * (100 / ranks + 15)))
  done
done
