#!/usr/bin/env bash
# context_ranks_test.sh PROGRAM GOLDEN: ranks that divide the rows of their micro-batches
# (local.learner.context_parallel) train as one rank does, up to the rounding of their sums.
set -euo pipefail
program=$1 golden=$2
. "$(dirname "$0")/trained.sh"

# same A B: losses, norms, tokens and KL of all steps agree to 1e-6.
same() {
  paste "$folder/$1.log" "$folder/$2.log" | awk '
    function differ(a, b) { return (a > b ? a - b : b - a) / (a > 1 ? a : a < -1 ? -a : 1) }
    {
      for (i = 4; i <= 10; i += 2) if (differ($i, $(i + 10)) > 1e-6) { print; exit 1 }
      ++steps
    }
    END { if (steps != 4) exit 1 }'
}

# divided RANKS [SETTING=VALUE ...]: RANKS against two times as many, which share rows in pairs. An
# eps of 1 keeps Adam from dividing rounding by itself.
pairs=0
divided() {
  local settings=(float32 fp32_master run.optim.eps=1 run.optim.lr=0.1 "${@:2}")
  ((++pairs))
  train "$1" alone$pairs "${settings[@]}"
  train $((2 * $1)) pair$pairs "${settings[@]}" local.learner.context_parallel=2
  near alone$pairs pair$pairs 1e-6
}

a=run.algorithm b=run.batch l=local.learner
divided 1
divided 2 $l.zero=3
divided 1 $l.micro_batch_tokens=5 $l.recompute=selective  # every sequence is longer
divided 2 $a.kl_coef=0.05 $a.kl_in=reward $a.loss=kl_cov $a.kl_cov.share=0.1 $l.zero=2
for ranks in 1 2; do
  divided $ranks $a.kl_coef=0.05 $b.updates=3 $b.epochs=2 $b.mini_batch=completions \
    $a.old_policy=learner $l.zero=3 $l.recompute=block
done
for family in gemma2 mistral qwen3_moe; do
  divided 1 run.model.path="$golden/$family" run.optim.lr=1e-2
done

train_all
compare_all
for ((i = 1; i <= pairs; ++i)); do same alone$i pair$i; done
