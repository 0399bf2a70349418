#!/usr/bin/env bash
# Token ids, texts and chats of GSM8K, MATH and hostile Unicode, next to the tokenizers package.
#
#   tests/run.sh --with tokenizers [--texts 100000] [--seed 1] [--family llama2]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=$("$here/../venv.sh" tokenizers "$here/packages.txt")
"$root/deploy/build.sh" release buttress
export PYTHONPATH=$root/tests/golden PYTHONDONTWRITEBYTECODE=1
"$env/bin/python" "$here/compare.py" --buttress "$root/build/release/bin/buttress" \
  --data "${BUTTRESS_DATA:-$root/../shared/data}" "$@"
