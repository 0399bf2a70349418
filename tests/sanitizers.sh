#!/usr/bin/env bash
# Builds and tests everything that works without LibTorch under sanitizers, and checks the thread
# annotations of the same files with clang. The sources are instrumented; the libraries of Debian
# are not.
#
#   tests/sanitizers.sh [annotations | asan | tsan]...       without an argument: all three
#
# annotations  clang's thread-safety analysis: every GUARDED_BY and REQUIRES of
# lib/base/thread/sync.h
# asan         AddressSanitizer and UndefinedBehaviorSanitizer over every test
# tsan         ThreadSanitizer over the tests of coordinator, ledger, worker, RPC and weights
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# The tests whose code runs more than one thread.
threaded='^(base|coordinator_.*|episodes|ledger|remote_rewards|rollout_worker|rpc|scoring|vllm|weights|collective_local)_test$'

say() { printf 'sanitizers: %s (%d s)\n' "$*" "$SECONDS"; }

# Prints the names of the tests of a preset that are programs of the project, so targets as well.
test_targets() { # PRESET REGEX
  ctest --test-dir "build/$1" -N -R "$2" | sed -nE 's/^ +Test +#[0-9]+: (.*_test)$/\1/p'
}

annotations() {
  cmake --preset clang -Wno-dev >/dev/null
  cmake --build --preset clang --target buttress_messages buttress_git_commit
  python3 -B tests/lint/thread_annotations.py build/clang
}

# Open MPI leaves memory to the end of the process and unloads its modules before, so that no
# suppression can name them: its tests run without the search for leaks.
asan() {
  deploy/build.sh asan
  export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS="suppressions=$root/tests/lsan.supp"
  local options=detect_stack_use_after_return=1
  ASAN_OPTIONS=$options \
    ctest --test-dir build/asan --output-on-failure --no-tests=error -LE lint -E '^collective_mpi'
  ASAN_OPTIONS=$options:detect_leaks=0 \
    ctest --test-dir build/asan --output-on-failure --no-tests=error -R '^collective_mpi'
}

tsan() {
  cmake --preset tsan -Wno-dev >/dev/null
  mapfile -t targets < <(test_targets tsan "$threaded")
  deploy/build.sh tsan "${targets[@]}"
  TSAN_OPTIONS="suppressions=$root/tests/tsan.supp history_size=4" \
    ctest --test-dir build/tsan --output-on-failure --no-tests=error -R "$threaded"
}

[ $# -gt 0 ] || set -- annotations asan tsan
for part in "$@"; do
  case $part in
    annotations | asan | tsan) ;;
    *) echo "tests/sanitizers.sh: '$part' is no part; expected annotations, asan or tsan" >&2
       exit 2 ;;
  esac
done
for part in "$@"; do
  say "$part"
  "$part"
done
say "passed"
