#!/usr/bin/env bash
# `buttress serve` called by the openai package and by lm_eval, and as the server of a run.
#
#   tests/run.sh --with serve [openai | lm_eval | run]...
#
# lm_eval asks it for the answers to held-out sums: each must be the one that transformers gives
# with the same model. The run samples 600 steps from it and must learn. Logs and the run are in
# runs/with-serve/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=$("$here/../venv.sh" serve "$here/packages.txt")
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" "$here/compare.py" "$@"
