#!/usr/bin/env bash
# Copies the programs and what they load of LibTorch into DIR/bin and DIR/lib, with run paths that
# are relative to the programs, so that DIR may be moved. Used by image.sh and release.sh.
#
#   deploy/stage.sh DIR [cpu|cuda]
#
# BUTTRESS_BIN is the folder of the programs (default build/release/bin).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/wheels.sh"
[ $# -ge 1 ] || { sed -n '2,7p' "$0" | cut -c3- >&2; exit 2; }
dir=$1 variant=${2:-cpu}
bin=${BUTTRESS_BIN:-$here/../build/release/bin}
cache=${BUTTRESS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress}
site=$cache/torch-2.11.0
fail() { printf 'stage: %s\n' "$*" >&2; exit 3; }

programs=(coordinator rollout_worker learner buttress)
[ "$variant" = cpu ] || programs+=(libbuttress_cuda.so)
[ ! -f "$bin/libbuttress_arrow.so" ] || programs+=(libbuttress_arrow.so)
command -v patchelf >/dev/null || fail "no patchelf; run deploy/setup.sh --image"
[ -f "$site/torch/lib/libtorch_cpu.so" ] || fail "no LibTorch in $site; run deploy/setup.sh"
[ "$variant" = cpu ] || [ -d "$site/nvidia/cudnn" ] ||
  fail "no CUDA libraries in $site; run deploy/setup.sh --cuda"

mkdir -p "$dir/bin" "$dir/lib"
copy_libtorch "$site" "$dir/lib" "$variant"
if [ -f "$bin/libbuttress_arrow.so" ]; then
  mkdir -p "$dir/lib/arrow"
  cp "$site"/pyarrow/lib{arrow,parquet}.so.2600 "$dir/lib/arrow/"
else
  echo "stage: no libbuttress_arrow.so: the programs will not read Parquet; run deploy/setup.sh" >&2
fi
run_path='$ORIGIN/../lib:$ORIGIN/../lib/torch/lib:$ORIGIN/../lib/nvidia/cu13/lib'
run_path+=':$ORIGIN/../lib/arrow'
run_path+=':$ORIGIN/../lib/nvidia/nccl/lib:$ORIGIN/../openmpi/lib'
for program in "${programs[@]}"; do
  [ -f "$bin/$program" ] || fail "no $bin/$program; run deploy/build.sh release $program"
  strip -o "$dir/bin/$program" "$bin/$program"
  patchelf --force-rpath --set-rpath "$run_path" "$dir/bin/$program"
done
