#!/usr/bin/env bash
# context_ranks_test.sh PROGRAM GOLDEN: ranks that divide the rows of their micro-batches
# (local.learner.context_parallel) train as one rank does, up to the rounding of their sums.
set -euo pipefail
program=$1 golden=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train RANKS OUT [SETTING=VALUE ...]; an eps of 1 keeps Adam from dividing rounding by itself.
train() {
  local ranks=$1 out=$2
  shift 2
  timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$ranks" "$program" \
    "$folder/$out" float32 fp32_master run.optim.eps=1 run.optim.lr=0.1 "$@" > "$folder/$out.log" \
    2> "$folder/errors" || { cat "$folder/errors"; return 1; }
}

# same A B: losses, norms, tokens and KL of all steps, and the weights, agree to 1e-6.
same() {
  "$program" --compare "$folder/$1" "$folder/$2" 1e-6
  paste "$folder/$1.log" "$folder/$2.log" | awk '
    function differ(a, b) { return (a > b ? a - b : b - a) / (a > 1 ? a : a < -1 ? -a : 1) }
    {
      for (i = 4; i <= 10; i += 2) if (differ($i, $(i + 10)) > 1e-6) { print; exit 1 }
      ++steps
    }
    END { if (steps != 4) exit 1 }'
}

# divided RANKS [SETTING=VALUE ...]: RANKS against two times as many, which share rows in pairs.
divided() {
  local ranks=$1
  shift
  train "$ranks" alone "$@"
  train $((2 * ranks)) pairs local.learner.context_parallel=2 "$@"
  same alone pairs
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
