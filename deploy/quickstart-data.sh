#!/usr/bin/env bash
# Makes countdown problems and a model fine-tuned on their form, in about a minute. Does nothing if
# they exist.
#
#   deploy/quickstart-data.sh [FOLDER]    runs/quickstart-data; BUTTRESS names the program
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
buttress=${BUTTRESS:-$root/build/release/bin/buttress}
data=${1:-runs/quickstart-data}

[ ! -f "$data/cold/model.safetensors" ] || exit 0
echo "quickstart: making problems and a start model (about a minute)"
rm -rf "$data"
"$buttress" task countdown --out "$data" --numbers 4 --operators +- --use-all --format compact \
  --train 32768 --held-out 1000 --sft 51200 --seed 1
"$buttress" new-model --out "$data/model" --characters '0123456789+-:>' \
  --layers 3 --hidden 96 --heads 3 --intermediate 256
"$buttress" sft --model "$data/model" --data "$data/sft.jsonl" --out "$data/cold" \
  --steps 400 --batch 128 --lr 3e-3 --warmup 20 --seed 1
