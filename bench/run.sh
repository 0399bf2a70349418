#!/usr/bin/env bash
# Runs one bench: this project next to a peer, in turn, on this machine.
#
#   bench/run.sh NAME [--json] [OPTION...]       --help lists the options of the bench
#
# With --json, stdout has one JSON object for each case and unit: bench, case, ours, peer,
# peer_name, unit, ratio (above 1: this project is better). Progress goes to stderr. Peers are
# Python packages (NAME/peers.txt) and, where a bench says so, a server. They come from the virtual
# environment $BUTTRESS_PEERS if it has them; otherwise they are installed into
# ~/.cache/buttress/bench, which may be deleted. The bench's own program is built; others must be in
# build/release (deploy/build.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-}
if [[ -z $name || ! -f $root/bench/$name/run.py ]]; then
  names=$(cd "$root/bench" && ls -d -- */run.py | xargs -n1 dirname | xargs)
  echo "bench/run.sh NAME [--json]; NAME is one of: $names" >&2
  exit 2
fi
shift
if [[ -f $root/bench/$name/CMakeLists.txt ]]; then
  "$root/deploy/build.sh" release "bench_$name" >&2
fi
export BUTTRESS_BENCH_CACHE=$HOME/.cache/buttress/bench
mapfile -t packages < "$root/bench/$name/peers.txt"
modules=$(printf 'import %s;' "${packages[@]%%==*}")
python=${BUTTRESS_PEERS:-$BUTTRESS_BENCH_CACHE/venv}/bin/python
if [[ ${#packages[@]} -eq 0 ]]; then
  python=$(command -v python3)
elif ! "$python" -c "$modules" 2>/dev/null; then
  python=$BUTTRESS_BENCH_CACHE/venv/bin/python
  echo "installing ${packages[*]} into $BUTTRESS_BENCH_CACHE/venv" >&2
  python3 -m venv "$BUTTRESS_BENCH_CACHE/venv"
  "$python" -m pip install -q "${packages[@]}" >&2
fi
export PYTHONPATH=$root/bench HF_HUB_OFFLINE=1
export TRANSFORMERS_VERBOSITY=error TOKENIZERS_PARALLELISM=false
exec "$python" "$root/bench/$name/run.py" "$@"
