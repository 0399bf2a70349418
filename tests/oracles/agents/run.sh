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
# verifiers and openai-agents want different versions of openai.
agents=$("$here/../venv.sh" agents "$here/agents.txt")
verifiers=$("$here/../venv.sh" verifiers "$here/verifiers.txt")
"$root/deploy/build.sh" release buttress coordinator rollout_worker learner
cd "$root"
PYTHONDONTWRITEBYTECODE=1 exec "$agents/bin/python" "$here/train.py" \
  --bin build/release/bin --verifiers "$verifiers/bin/python" "$@"
