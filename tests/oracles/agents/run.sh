#!/usr/bin/env bash
# Runs trained with agents of the packages openai, openai-agents, gymnasium and verifiers.
#
#   tests/run.sh --with agents [openai|framework|gymnasium|verifiers...]
#
# Their programs are unchanged, or the adapters of buttress.agents. Each run must lose nothing
# (buttress ledger audit) and train every token as it was sampled. Logs are in runs/with-agents/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
envs=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}
# verifiers and openai-agents want different versions of openai.
for name in agents verifiers; do
  env=$envs/$name
  if ! cmp -s "$here/$name.txt" "$env/.complete"; then
    rm -rf "$env"
    python3 -m venv "$env"
    "$env/bin/pip" install -q --disable-pip-version-check -r "$here/$name.txt" >&2 || {
      echo "agents: pip could not install $name.txt; check the network or pip's index" >&2
      exit 3
    }
    cp "$here/$name.txt" "$env/.complete"
  fi
done
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
PYTHONDONTWRITEBYTECODE=1 exec "$envs/agents/bin/python" "$here/train.py" \
  --bin build/release/bin --verifiers "$envs/verifiers/bin/python" "$@"
