#!/usr/bin/env bash
# Runs the release tarball in bare roots of Debian, without a network: the quickstart's first steps.
#
#   tests/release/run.sh [SUITE ...]       default: bookworm trixie
#
# Needs root, build/release, and `deploy/setup.sh --image`. Its last line counts the checks; exit
# code 77 says why nothing could run here.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -gt 0 ] || set -- bookworm trixie
passed=0 failed=0 skipped=0
skip_all() { printf 'release: %s\n0 passed, 0 failed, 1 skipped\n' "$*"; exit 77; }
[ "$(id -u)" = 0 ] || skip_all "making a root needs root"
command -v debootstrap >/dev/null || skip_all "no debootstrap; run deploy/setup.sh --image"
unshare --mount --net --pid --fork true 2>/dev/null || skip_all "this machine makes no namespaces"

check() { # NAME COMMAND...
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    echo "FAILED  $name"
    tail -n 20 "$work/log" | sed 's/^/        /'
  fi
}

# Runs a script in the root, as a user without rights or network.
in_root() { # FOLDER SCRIPT
  unshare --mount --net --pid --fork bash -ec '
    ip link set lo up
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/tmp"
    exec chroot --userspec=1000:1000 "$1" env -i PATH=/usr/bin:/bin HOME=/tmp bash -ec "$2"
  ' - "$1" "$2"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check "the tarball is made" "$root/deploy/release.sh"
mkdir "$work/unpacked"
check "it unpacks" tar xzf "$root"/build/buttress-*-linux-x86_64.tar.gz -C "$work/unpacked"
check "get-libtorch.sh fetches LibTorch" \
  bash -c '"$1"/*/deploy/get-libtorch.sh' - "$work/unpacked"
for suite; do
  folder=$work/$suite
  check "$suite: a bare root" debootstrap --variant=minbase "$suite" "$folder" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
  cp -R "$work/unpacked" "$folder/opt/release"
  chown -R 1000:1000 "$folder/opt/release"
  check "$suite: every library is found" in_root "$folder" '
    cd /opt/release/*/
    found=$(ldd bin/coordinator bin/rollout_worker bin/learner bin/buttress bin/*.so)
    ! grep "not found" <<<"$found"'
  cp "$root/tests/golden/columns/trl/completions_00009.parquet" "$folder/opt/release/"
  check "$suite: a Parquet file is read" in_root "$folder" '
    cd /opt/release/*/
    bin/buttress verify ../completions_00009.parquet --verifier exact --answer-field completion \
      --response-field completion | grep -x "correct  *4"'
  check "$suite: problems and a start model" in_root "$folder" '
    cd /opt/release/*/
    BUTTRESS=$PWD/bin/buttress deploy/quickstart-data.sh'
  check "$suite: 20 steps on two ranks, two workers" in_root "$folder" '
    cd /opt/release/*/
    PATH=$PWD/bin:$PATH
    buttress launch configs/quickstart.yaml --set run.steps=20 --no-eval
    grep -c . runs/quickstart/steps.jsonl | grep -qx 20
    buttress explain runs/quickstart'
  rm -rf "$folder"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
