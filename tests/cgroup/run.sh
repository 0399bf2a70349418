#!/usr/bin/env bash
# Runs the tests of the sandbox's memory under control groups of cgroup v1 and v2, on a kernel of
# their own: Linux as a program (Debian's user-mode-linux), which sees the files of this machine,
# read-only. No group of this machine is touched. Prints how much memory the group's parent has held
# at most, where a sandbox may hold 512 MiB. Needs root, 2 GB of TMPDIR, and some 4 minutes,
# since that kernel is slow.
#   tests/cgroup/run.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${SANDBOX_TEST:-$here/../../build/release/bin/sandbox_test}") # not below /tmp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -qq download user-mode-linux && dpkg -x user-mode-linux*.deb .)
for version in v1 v2; do # a kernel hands each controller to one version
  # TMPDIR holds the memory of the kernel.
  TMPDIR=${TMPDIR:-/dev/shm} timeout 600 "$work/usr/bin/linux.uml" mem=1500M quiet \
    root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$here/inside.sh" uml_dir="$work" \
    con=null con0=fd:0,fd:1 "PROGRAM=$program" "VERSION=$version" </dev/null 2>/dev/null |
    tr -d '\r' | sed -n '/^group/,/^end/p' | grep -v '^Memory cgroup' | tee "$work/$version"
  grep -q '^end 0$' "$work/$version"
done
