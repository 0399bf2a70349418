#!/usr/bin/env bash
# Token ids, texts and chats of GSM8K, MATH and hostile Unicode, next to the tokenizers package.
#
#   tests/run.sh --with tokenizers [--texts 100000] [--seed 1] [--family llama2]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
env=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}/tokenizers
if ! cmp -s "$here/packages.txt" "$env/.complete"; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check -r "$here/packages.txt" >&2 || {
    echo "tokenizers: pip could not install packages.txt; check the network or pip's index" >&2
    exit 3
  }
  cp "$here/packages.txt" "$env/.complete"
fi
"$root/deploy/build.sh" release buttress
export PYTHONPATH=$root/tests/golden PYTHONDONTWRITEBYTECODE=1
"$env/bin/python" "$here/compare.py" --buttress "$root/build/release/bin/buttress" \
  --data "${BUTTRESS_DATA:-$root/../shared/data}" "$@"
