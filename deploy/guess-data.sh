#!/usr/bin/env bash
# Makes the rows of configs/guess.yaml and a model that guesses at random, in some seconds. Does
# nothing if they exist.
#
#   deploy/guess-data.sh [FOLDER]    runs/guess-data; BUTTRESS names the program
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
buttress=${BUTTRESS:-$root/build/release/bin/buttress}
data=${1:-runs/guess-data}

[ ! -f "$data/cold/model.safetensors" ] || exit 0
rm -rf "$data"
"$buttress" task guess --out "$data" --max 8 --turns 4 --sft 4096 --seed 1
"$buttress" new-model --out "$data/model" --text "$data/sft.jsonl" --tokens 290 \
  --layers 2 --hidden 64 --heads 2 --intermediate 192
"$buttress" sft --model "$data/model" --data "$data/sft.jsonl" --out "$data/cold" \
  --steps 60 --batch 64 --lr 3e-3 --warmup 10 --seed 1
