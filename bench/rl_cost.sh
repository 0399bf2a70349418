#!/usr/bin/env bash
# The cost of building lib/rl without torch: CPU seconds of one compiler without ccache, lines, and
# bytes of code. Needs build/release (deploy/build.sh).
#
#   bench/rl_cost.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root/build/release"
# The command of each file, with its object in $work.
ninja -t commands buttress_rl | grep -E -- "-c $root/lib/rl/" |
  sed -E "s#.*ccache ##; s#-M[DTF]( lib/rl/[^ ]+)?##g" |
  sed -E "s#-o lib/rl/[^ ]*/([^ /]+)\.o#-o $work/\1.o#" >"$work/commands"
TIMEFORMAT='%U %S'
cpu=$({ time bash -e "$work/commands" >&2; } 2>&1 | awk '{print $1 + $2}')
files=$(wc -l <"$work/commands")
lines=$(find "$root/lib/rl" -name '*.cc' -o -name '*.h' | xargs cat | wc -l)
text=$(size -t "$work"/*.o | tail -1 | awk '{print $1}')
awk -v cpu="$cpu" -v files="$files" -v lines="$lines" -v text="$text" \
  'BEGIN {
    printf "%d files, %d lines in lib/rl: ", files, lines
    printf "%.1f CPU seconds to compile, %.0f KiB of code\n", cpu, text / 1024
  }'
