#!/usr/bin/env bash
# Installs what the project needs, builds it and runs its tests; ends with ctest's summary, which
# names the tests that were skipped and why.
#
#   tests/run.sh [CTEST_ARGUMENT...]           every test; for example: tests/run.sh -L unit
#   tests/run.sh --with NAME [ARGUMENT...]     instead, a comparison with another project's package,
#                                              which the first call installs, or a long test
#   tests/run.sh --with                        lists the names
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "${1:-}" = --with ]; then
  oracle=$root/tests/oracles/${2:-}/run.sh
  if [ $# -lt 2 ] || [ ! -f "$oracle" ]; then
    [ $# -lt 2 ] || echo "tests/run.sh: there is no '$2'; expected one of:" >&2
    for script in "$root"/tests/oracles/*/run.sh; do
      printf '%-12s %s\n' "$(basename "$(dirname "$script")")" "$(sed -n '2s/^# //p' "$script")" >&2
    done
    [ $# -lt 2 ] && exit 0 || exit 2
  fi
  "$root/deploy/setup.sh"
  exec "$oracle" "${@:3}"
fi
"$root/deploy/setup.sh"
"$root/tests/kubernetes/setup.sh" >/dev/null &  # without it manifests_test says so and skips
"$root/deploy/build.sh"
wait
cd "$root/build/release"
# For two cores: tests of several processes count as two (buttress_run_tests), and also wait.
exec ctest -j 6 --output-on-failure --no-tests=error "$@"
