#!/usr/bin/env bash
# One bench: bench/run.sh NAME [--json]. With --json one JSON object a case and unit, a line each, on stdout: bench, case, ours, peer, peer_name,
# unit, ratio (above 1: we are better); progress goes to stderr. Peers come from $BUTTRESS_PEERS (a Python environment) or are installed into an
# environment that is deleted afterwards. Needs build/release (deploy/build.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-}
if [[ -z $name || ! -f $root/bench/$name/run.py ]]; then
  echo "bench/run.sh NAME [--json]; there are: $(cd "$root/bench" && ls -d */run.py | xargs -n1 dirname | xargs)" >&2
  exit 2
fi
shift
packages=$(cat "$root/bench/$name/peers.txt")
python=${BUTTRESS_PEERS:-/root/peers}/bin/python
if ! "$python" -c "import ${packages//$'\n'/, }" 2>/dev/null; then
  peers=$(mktemp -d)
  trap 'rm -rf "$peers"' EXIT
  echo "installing ${packages//$'\n'/, } into $peers" >&2
  python3 -m venv "$peers"
  "$peers/bin/pip" install -q $packages >&2
  python=$peers/bin/python
fi
"$python" "$root/bench/$name/run.py" "$@"
