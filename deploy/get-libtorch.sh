#!/usr/bin/env bash
# Fetches LibTorch into a release of Buttress (lib/torch, lib/nvidia), from PyPI, pinned by hash:
#
#   deploy/get-libtorch.sh [cpu|cuda]        needs python3 with pip, and 2 GB of disk (cuda: 8 GB)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/wheels.sh"
fail() { printf 'get-libtorch: %s\n' "$*" >&2; exit 3; }
variant=${1:-cpu}
case $variant in
  cpu) lists=("$here/wheels.txt") wanted='torch|nvidia-cuda-runtime|nvidia-cuda-cupti' ;;
  cuda) lists=("$here/wheels.txt" "$here/wheels-cuda.txt") wanted='torch|nvidia-.*' ;;
  *) echo "get-libtorch: '$variant' is neither cpu nor cuda" >&2; exit 2 ;;
esac
python3 -m pip --version >/dev/null 2>&1 ||
  fail "python3 with pip is needed: apt-get install --no-install-recommends python3-pip"
target=$here/../lib
[ -d "$target" ] || fail "no folder $target; call the copy inside an unpacked release"
site=$(mktemp -d -p "$target")
trap 'rm -rf "$site"' EXIT
while read -r line; do
  echo "get-libtorch: ${line%% *}"
  unpack_wheel "$line" "$site" || fail "cannot download ${line%% *}, or its hash differs"
done < <(grep -hE "^($wanted)==" "${lists[@]}")
copy_libtorch "$site" "$target" "$variant"
echo "get-libtorch: done, $(du -smc "$target"/torch "$target"/nvidia | tail -n 1 | cut -f1) MiB"
