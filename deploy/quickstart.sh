#!/usr/bin/env bash
# Sets up, builds, and runs the main job: a small model learns countdown with AVSPO on this machine, in about five minutes after the build.
#
#   deploy/quickstart.sh [--set run.steps=100 ...]       arguments go to `buttress launch`
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/deploy/setup.sh"
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
bin=$root/build/release/bin
data=runs/quickstart-data

if [ ! -f $data/cold/model.safetensors ]; then
  echo "quickstart: problems, and a cold-start model (about a minute)"
  rm -rf $data
  "$bin/buttress" task countdown --out $data --numbers 4 --operators +- --use-all --format compact --train 32768 --held-out 1000 --sft 51200 --seed 1
  "$bin/buttress" new-model --out $data/model --characters '0123456789+-:>' --layers 3 --hidden 96 --heads 3 --intermediate 256
  "$bin/buttress" sft --model $data/model --data $data/sft.jsonl --out $data/cold --steps 400 --batch 128 --lr 3e-3 --warmup 20 --seed 1
fi
exec "$bin/buttress" launch configs/quickstart.yaml --fresh "$@"
