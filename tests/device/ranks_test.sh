#!/usr/bin/env bash
# ranks_test.sh PROGRAM GOLDEN: one, two and four ranks on the device train the weights of one rank
# on the CPU, up to the rounding of their operators, whatever the loss.
set -euo pipefail
program=$1 golden=$2
. "$(dirname "$0")/../unit/learner/trained.sh"

# Four steps at a learning rate of 1e-2 move the weights by 4e-2; Adam turns the last bits of the
# sums into differences up to this bound.
bound=2e-5

train 1 cpu float32 fp32_master
for ranks in 1 2 4; do
  train "$ranks --gpu" gpu$ranks float32 fp32_master
  near cpu gpu$ranks $bound
done
a=run.algorithm b=run.batch
losses=0
for settings in \
  "$a.loss=gmpo $a.kl_coef=0.05 $a.kl_in=reward local.learner.recompute=block" \
  "$b.updates=2 $b.epochs=3 $b.kl_stop=1e-4 $a.kl_coef=0.05 $a.old_policy=learner \
    run.optim.lr=1e-3 local.learner.zero=3"; do
  loss=loss$((++losses))
  train 1 $loss-cpu float32 fp32_master $settings
  train "2 --gpu" $loss-gpu float32 fp32_master $settings
  near $loss-cpu $loss-gpu $bound
done

# Experts that stay divided exchange rows.
settings="run.model.path=experts run.optim.eps=1e-3"
divided="$settings local.learner.zero=3 local.learner.expert_parallel=true"
train 1 experts-cpu float32 fp32_master $settings
train "2 --gpu" experts-gpu float32 fp32_master $divided
near experts-cpu experts-gpu 1e-6

# In bfloat16 one product multiplies the rows of all experts: the first step has the loss and the
# norm of the CPU, up to the rounding of bfloat16.
train 1 half-cpu bfloat16 fp32_master $settings
train "1 --gpu" half-gpu1 bfloat16 fp32_master $settings
train "2 --gpu" half-gpu2 bfloat16 fp32_master $divided

# What the host waits for in a step, by kind. The number depends neither on micro-batches, nor on
# prompts, completions or layers.
# waits EXPECTED RANKS [SETTING=VALUE ...]
expected=()
waits() {
  train "$2 --gpu" waits${#expected[@]} float32 fp32_master "${@:3}"
  expected+=("$1")
}
# The event of the last phase, for its seconds; the norm with the sums of the losses; whether the
# new weights are finite.
waits "event 1 copy 1 scalar 1" 1
# And the event of the backward pass, from which on a rank waits for its peers.
for settings in "" local.learner.micro_batch_tokens=30 \
  "$b.prompts=12 run.sampling.group_size=8" run.model.path=larger local.learner.zero=3 \
  "$a.kl_coef=0.05 local.learner.recompute=block"; do
  waits "event 2 copy 1 scalar 1" 2 $settings
done
# And the log-probs of the start model, all at once; each update has its own norm.
waits "event 2 copy 2 scalar 1" 2 $a.kl_coef=0.05 $a.kl_in=reward
waits "event 4 copy 3 scalar 1" 2 $b.updates=3

# What the ranks divide changes no bit.
for stage in 0 1 2 3; do
  train "2 --gpu" stage$stage bfloat16 stochastic local.learner.zero=$stage
done

# Nor does a start model that stays on the disk, and comes through pinned memory.
for reference in device disk; do
  train "2 --gpu" $reference bfloat16 fp32_master run.model.path="$golden/qwen2_untied" \
    $a.kl_coef=0.05 local.learner.zero=3 local.learner.reference=$reference
done

# The host may keep the state of the optimizer, and the device the weights.
train "2 --gpu" host float32 fp32_master local.learner.zero=2 local.learner.offload=host
near gpu1 host $bound

# Ranks that divide the rows of their micro-batches train the same weights.
for recompute in none block; do
  train "2 --gpu" rows-$recompute float32 fp32_master local.learner.context_parallel=2 \
    local.learner.recompute=$recompute
  near gpu1 rows-$recompute $bound
done

train_all
compare_all
for experts in cpu gpu1 gpu2; do grep '^step 1 ' "$folder/half-$experts.log"; done |
  awk 'NR == 1 { loss = $4; norm = $6 }
    ($4 / loss - 1) ^ 2 > 1e-4 || ($6 / norm - 1) ^ 2 > 1e-4 { print "other numbers: " $0; exit 1 }
    END { exit NR != 3 }'
for i in "${!expected[@]}"; do
  sed -n 's/^step [2-4] .* waits //p' "$folder/waits$i.log" | sort -u |
    diff <(echo "${expected[i]}") -
done
for stage in 1 2 3; do equal stage0 stage$stage; done
equal device disk
